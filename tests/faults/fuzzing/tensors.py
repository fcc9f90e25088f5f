"""Made-up tensors: inputs, masks and weights of a cut, and logits."""

from __future__ import annotations

import math
from typing import Any

import torch
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from torch import Tensor

import attnfaith as af
from attnfaith.functional.decision import KINDS, OUTPUTS, Decision, decision_of
from tests.contracts.test_cut_leaves_nothing_behind import Snapshot
from tests.faults.fuzzing.models import MODELS, Untouched, capture_of, cut_of
from tests.helpers import commands


def ids() -> SearchStrategy[Any]:
    """Ids and masks of odd shapes, types and values."""
    size = st.tuples(st.integers(0, 3), st.integers(0, 7))
    kinds = st.sampled_from([torch.long, torch.long, torch.int32, torch.float32, torch.bool, torch.float64, torch.int8])
    shape = st.sampled_from(["same", "same", "same", "shorter", "flat", "deep", "none", "list"])
    return st.tuples(st.sampled_from(sorted(MODELS)), size, kinds, shape).flatmap(_tensors)


def _tensors(given: Any) -> SearchStrategy[Any]:
    family, (rows, columns), kind, shape = given
    value = st.one_of(st.integers(0, 15), st.integers(0, 15), st.sampled_from([-1, 63, 64, 100]))
    mask = st.one_of(st.sampled_from([0, 1]), st.sampled_from([0, 1]), st.sampled_from([2, -1, 0.5, math.nan]))
    table = st.lists(st.lists(value, min_size=columns, max_size=columns), min_size=rows, max_size=rows)
    masks = st.lists(st.lists(mask, min_size=columns, max_size=columns), min_size=rows, max_size=rows)
    return st.tuples(st.just(family), table, masks, st.just(kind), st.just(shape))


def captured(example: Any) -> None:
    """Weights are distributions over items, padding is none, and erasing nothing changes nothing."""
    family, table, masks, kind, shape = example
    columns = len(table[0]) if table else 0
    ids = torch.tensor(table, dtype=torch.long).reshape(len(table), columns)
    mask: Any = torch.tensor(masks, dtype=torch.float64).reshape(len(table), columns)
    whole = mask.isfinite().all() and (mask == mask.long()).all()
    mask = mask.to(kind) if kind.is_floating_point or whole else mask
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
    if shape == "shorter":
        inputs["attention_mask"] = mask[:, :-1]
    elif shape == "flat":
        inputs["input_ids"] = ids.reshape(-1)
    elif shape == "deep":
        inputs["attention_mask"] = mask[None]
    elif shape == "none":
        del inputs["attention_mask"]
    elif shape == "list":
        inputs["input_ids"] = table
    with Untouched(family):
        capture = cut_of(family).capture(**inputs)
        assert capture.logits.isfinite().all()
        assert (capture.weights.masked_fill(capture.mask[:, None], 0) == 0).all(), "weight on padding"
        same = cut_of(family).rerun(capture, keep=capture.mask[:, None])[:, 0]
        scale = capture.logits.abs().amax().clamp(min=1)
        assert (same - capture.logits).abs().amax() <= 1e-5 * scale, "erasing nothing changes the logits"


def keeps() -> SearchStrategy[Any]:
    """Masks of what stays, and orders, of odd shapes and types."""
    family = st.sampled_from(sorted(MODELS))
    kind = st.sampled_from([torch.bool, torch.bool, torch.bool, torch.long, torch.float32])
    change = st.sampled_from(["no", "no", "no", "narrow", "wide", "flat", "fewer texts", "none", "list"])
    return st.tuples(family, st.integers(0, 3), st.integers(0, 2**30), kind, change)


def erased(example: Any) -> None:
    """Erasing padding changes nothing, erasing twice is erasing once, and removal step by step is removal of sets."""
    family, count, seed, kind, change = example
    cut, capture = cut_of(family), capture_of(family)
    batch, _, items = capture.shape
    draws = torch.rand(batch, count, items, generator=torch.Generator().manual_seed(seed))
    keep: Any = (draws < 0.6).to(kind)
    changed = {
        "narrow": lambda: keep[..., :-1],
        "wide": lambda: torch.cat([keep, keep], -1),
        "flat": lambda: keep.reshape(batch, -1),
        "fewer texts": lambda: keep[:-1],
        "none": lambda: None,
        "list": lambda: keep.tolist(),
    }
    with Untouched(family):
        keep = changed[change]() if change in changed else keep
        result = cut.rerun(capture, keep=keep)
        assert kind == torch.bool, f"a mask of {kind} is taken for one of truth values"
        assert change == "no", f"a mask of a wrong shape is taken: {change}"
        assert result.shape == (batch, count, capture.logits.shape[-1])
        assert result.isfinite().all()
        _close(cut.rerun(capture, keep=keep & capture.mask[:, None]), result, "padding that is kept changes something")
        order = draws[:, 0].masked_fill(~capture.mask, 2).argsort(-1) if count else capture.mask.int().argsort(-1, True)
        steps = cut.prefixes(capture, order)
        _close(steps[:, 0], capture.logits, "removing nothing changes the logits")
        rank = order.argsort(-1)
        for step in (1, items // 2):
            _close(
                steps[:, step], cut.rerun(capture, keep=(rank >= step)[:, None])[:, 0], "a step is not the set it is"
            )


def _close(first: Tensor, other: Tensor, message: str) -> None:
    assert (first - other).abs().max() <= 1e-4 * other.abs().max().clamp(min=1) if first.numel() else True, message


def weights() -> SearchStrategy[Any]:
    """Counterfactual attention: any numbers, of odd shapes and types."""
    value = st.one_of(
        st.floats(0, 1), st.sampled_from([0.0, 1.0, -1.0, 1e-40, 1e20, -1e20, 1e38, math.inf, -math.inf, math.nan])
    )
    change = st.sampled_from(["no", "no", "no", "narrow", "flat", "double", "half", "list", "both"])
    return st.tuples(st.sampled_from(sorted(MODELS)), value, value, st.integers(0, 2**30), change)


def reweighted(example: Any) -> None:
    """Logits are finite, or the error is one of numbers; the model's own weights give its own logits."""
    family, scale, other, seed, change = example
    cut, capture = cut_of(family), capture_of(family)
    draws = torch.rand(capture.weights.shape, generator=torch.Generator().manual_seed(seed))
    given: Any = (capture.weights * scale + draws * other * capture.mask[:, None])[:, None]
    changed = {
        "narrow": lambda: given[..., :-1],
        "flat": lambda: given[:, 0],
        "double": lambda: given.double(),
        "half": lambda: given.half(),
        "list": lambda: given.tolist(),
    }
    with Untouched(family):
        given = changed[change]() if change in changed else given
        keep = capture.mask[:, None] if change == "both" else None
        result = cut.rerun(capture, weights=given, keep=keep)
        assert change in ("no", "double", "half"), f"weights of a wrong kind are taken: {change}"
        assert result.isfinite().all(), f"logits that are no numbers come out in silence ({scale:g}, {other:g})"
        _close(
            cut.rerun(capture, weights=capture.weights[:, None])[:, 0],
            capture.logits,
            "the model's own weights change it",
        )


def logits() -> SearchStrategy[Any]:
    """Logits of every kind of decision, with NaN, infinities, ties and tiny differences."""
    value = st.one_of(
        st.floats(-5, 5), st.sampled_from([0.0, 1.0, 1e-45, 1e30, -1e30, 3e38, math.inf, -math.inf, math.nan])
    )
    return st.tuples(
        st.sampled_from(KINDS),
        st.sampled_from(OUTPUTS),
        st.lists(value, min_size=1, max_size=4),
        st.lists(value, min_size=4, max_size=4),
    )


def decided(example: Any) -> None:
    """Nothing flips without a change; probabilities are in [0, 1]; divergences are 0 of the same and never negative."""
    kind, output, before, after = example
    before = before[:1] if kind == "sigmoid" else before
    decision = decision_of(None, len(before), kind, 0.5 if kind == "regression" else None)
    first, other = torch.tensor([before]), torch.tensor([after[: len(before)]])
    assert not decision.flips(first, first).any() or not first.isfinite().all(), "a decision differs from itself"
    if not (first.isfinite().all() and other.isfinite().all()):
        return  # a Capture refuses them: see the property on models whose logits are no numbers
    assert decision.divergence(first, first).abs().max() <= 1e-12
    assert (decision.divergence(first, other) >= 0).all()
    assert (decision.flips(first, other) == decision.flips(first, other.clone())).all()
    if kind != "regression":
        probabilities = decision.probabilities(first)
        assert ((probabilities >= 0) & (probabilities <= 1)).all()
        assert (decision.distance(first, other) <= 1 + 1e-9).all()
    target = decision.predict(first)
    number = decision.quantity(first, target, output)
    assert number.shape == (1,)
    assert not number.isnan().any() or (isinstance(decision, Decision) and len(before) == 1)


def extremes() -> SearchStrategy[Any]:
    """A bias and a factor for the last layer of a model: huge, tiny, no numbers."""
    value = st.one_of(st.floats(-5, 5), st.sampled_from([0.0, 1e-30, 1e30, 3e38, math.inf, -math.inf, math.nan]))
    return st.tuples(st.sampled_from(sorted(MODELS)), value, value, st.integers(0, 5))


def extreme_models(example: Any) -> None:
    """Texts whose logits are no numbers are set aside with the reason, or the model is refused."""
    family, bias, factor, seed = example
    import copy

    model = copy.deepcopy(MODELS[family]()[0])
    last = [module for module in model.modules() if isinstance(module, torch.nn.Linear) and module.bias is not None][-1]
    with torch.no_grad():
        last.bias[0] = bias
        last.weight.mul_(factor)
    before = Snapshot(model)
    data = [{"text": text} for text in commands.texts(4, seed=seed)]
    try:
        results = af.Evaluator(model, MODELS[family]()[1]).compute(
            data, rankings=["attention"], level="attention", n_resamples=9, quiet=True
        )
        counts = results.manifest["counts"]
        assert counts["texts"] + sum(counts["aside"].values()) == 4
        str(results)
    finally:
        after = Snapshot(model)
        before.values, after.values = {}, {}  # NaN is not equal to itself
        assert before == after, "the model is not as before"
