"""What the engine's tests share: tiny models whose decisions flip, and batches of them without a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

import attnfaith as af
from attnfaith.attribution.request import Settings
from attnfaith.attribution.texts import special_ids_of
from attnfaith.evaluation.batch import Batch, Setup
from attnfaith.evaluation.data import Row
from attnfaith.evaluation.erasure import Erasure
from attnfaith.evaluation.protocol import Test
from attnfaith.evaluation.rehearsal import rehearse
from attnfaith.families import tiny_model
from attnfaith.functional.decision import Decision
from tests.comparing import inputs_of

SIZES = {"multiclass": 3, "sigmoid": 1, "multilabel": 3, "regression": 1}
LENGTHS = (11, 7, 9, 12, 5, 8)
TELLING = 0.3
"""A regression's tolerance, relative to how widely its numbers are spread."""


def flippable_model(family: str, kind: str = "multiclass", dtype: torch.dtype = torch.float64, seed: int = 0) -> Any:
    """A tiny model whose decisions hang on its items: the mean of its logits over texts is taken off its bias."""
    classes = SIZES[kind]
    if family[:4] in ("FLAN", "HANr", "HANn", "HANc"):
        sizes = {"embedding_size": 16, "hidden_size": 12, "kernels": [(3, 12)], "num_labels": classes}
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = af.models.from_preset(family, vocab_size=64, **sizes).eval()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.normal_(0, 2 * parameter.shape[-1] ** -0.5)
    else:
        model = tiny_model(family, num_labels=classes, seed=seed)
    with torch.no_grad():
        last = [module for module in model.modules() if isinstance(module, nn.Linear) and len(module.weight) == classes]
        logits = logits_of(model, inputs_of(model, (12, 9, 7, 11, 8, 10), seed=90))
        if last and last[-1].bias is not None:
            last[-1].bias -= logits.mean(0)
    return model.to(dtype)


def logits_of(model: nn.Module, inputs: dict[str, Any]) -> Tensor:
    with torch.no_grad():
        return model(**inputs).logits


def decision_for(model: nn.Module, kind: str, inputs: dict[str, Any]) -> Decision:
    """A decision of this kind; a regression's tolerance is a share of the spread of its numbers."""
    if kind != "regression":
        return Decision(kind)
    return Decision(kind, tolerance=TELLING * float(logits_of(model, inputs).std()) + 1e-3)


def batch_of(
    model: Any,
    kind: str = "multiclass",
    *,
    inputs: dict[str, Any] | None = None,
    lengths: Sequence[int] = LENGTHS,
    seed: int = 1,
    side: str | None = None,
    decision: Decision | None = None,
    numbers: Sequence[int] | None = None,
    labels: Sequence[Any] | None = None,
    mask_id: int | None = 4,
    rng: int = 0,
    **options: Any,
) -> Batch:
    """Made-up texts, cut and captured; nothing is settled about rankings and hiding yet."""
    cut = model if isinstance(model, af.Cut) else af.cut(model)
    if inputs is None:
        inputs = inputs_of(cut.model, tuple(lengths), side=side, seed=seed)
    count = len(inputs["input_ids"])
    numbers = range(count) if numbers is None else numbers
    given = [None] * count if labels is None else labels
    config = cut.model.config
    settings = Settings(
        steps=4, seed=rng, pad_id=config.pad_token_id, mask_id=mask_id, special_ids=special_ids_of(config)
    )
    decision = decision_for(cut.model, kind, inputs) if decision is None else decision
    rows = [Row(number, f"text {number}", label=label) for number, label in zip(numbers, given, strict=True)]
    return Batch(Setup(cut, decision, settings, **options), rows, [None] * count, inputs)  # type: ignore[list-item]


def settled(
    batch: Batch,
    level: str | None = "attention",
    rankings: str | Sequence[str] = "all",
    *,
    hide: str | None = None,
    side: str = "right",
    tests: Sequence[Test] = (),
) -> Batch:
    """The same batch with its rankings and its way of hiding settled, as before a run: on its longest text alone."""
    long = int(batch.inputs["attention_mask"].sum(1).argmax())
    first = Batch(batch.setup, batch.rows[long : long + 1], [None], only(batch.inputs, [long]))  # type: ignore[list-item]
    texts: Any = SimpleNamespace(tokenizer=SimpleNamespace(padding_side=side))
    _, setup, _ = rehearse(first, texts, level=level, rankings=rankings, explanations={}, hide=hide, tests=tests)
    return Batch(setup, batch.rows, batch.encoded, batch.inputs)


def only(inputs: dict[str, Any], texts: Sequence[int]) -> dict[str, Any]:
    """Some texts of a batch, padding that none of them needs taken away."""
    count, width = inputs["input_ids"].shape
    used = inputs["attention_mask"][list(texts)].bool().any(0)
    found = {}
    for name, value in inputs.items():
        if isinstance(value, Tensor) and value.dim() and len(value) == count:
            value = value[list(texts)]
            if value.dim() > 1 and value.shape[1] == width:
                value = value[:, used]
        found[name] = value
    return found


def erased(batch: Batch, level: str | None = "attention", rankings: str | Sequence[str] = "all", **options: Any) -> Any:
    """The table of the erasure test on a batch."""
    settle = {name: options.pop(name) for name in ("hide", "side") if name in options}
    test = Erasure(**options)
    return table_of(test, settled(batch, level, rankings, **settle))


def table_of(test: Test, batch: Batch) -> pd.DataFrame:
    """Its columns as objects: None stays None."""
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in test.run(batch).items()})


def with_setup(batch: Batch, **changes: Any) -> Batch:
    """The same texts under another setup."""
    return Batch(replace(batch.setup, **changes), batch.rows, batch.encoded, batch.inputs)
