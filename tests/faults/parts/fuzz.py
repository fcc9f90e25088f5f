"""Made-up input of every kind, by hypothesis: right results or documented errors, and a model that is as before."""

from __future__ import annotations

import csv
import functools
import io
import json
import math
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from torch import Tensor

import attnfaith as af
from attnfaith.functional.decision import KINDS, OUTPUTS, Decision, decision_of
from tests.contracts.test_cut_leaves_nothing_behind import Snapshot, assert_untouched
from tests.faults import material
from tests.faults.tally import Part, Tally, problem_of, times
from tests.helpers import commands

LONGEST_ERROR = 6_000
"""Characters of a message, however long what it is about."""
LONG = 6_500
"""Examples in the long form, all together."""


def run(scale: float, seed: int) -> Tally:
    """Every property below, with its share of the examples."""
    tally = Tally()
    total = sum(share for share, *_ in PROPERTIES.values())
    for number, (what, (share, strategy, check)) in enumerate(PROPERTIES.items()):
        examples = times(LONG * share / total, scale, 8)
        _fuzzed(tally, what, strategy(), check, examples, seed * 1000 + number)
    return tally


def _fuzzed(
    tally: Tally, what: str, strategy: SearchStrategy[Any], check: Callable[[Any], None], examples: int, seed: int
) -> None:
    """Run one property on all its examples, also past a failure: what fails in the same way again is marked so."""
    profile: dict[str, Any] = {
        "max_examples": examples,
        "deadline": None,
        "database": None,
        "suppress_health_check": list(HealthCheck),
        "print_blob": False,
    }
    seen: set[str] = set()

    @hypothesis.seed(seed)
    @settings(**profile, phases=[Phase.generate])
    @hypothesis.given(strategy)
    def all_of_them(example: Any) -> None:
        problem = _problem(check, example)
        kind = problem.split(" about ")[0]
        tally.record(what, problem if kind not in seen or not problem else f"{kind} (again)")
        seen.add(kind)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        all_of_them()


def _problem(check: Callable[[Any], None], example: Any) -> str:
    """What is wrong with how one example is handled; "" if a law holds or a documented error comes out."""
    try:
        check(example)
    except af.AttnFaithError as error:
        message = str(error)
        if len(message) > LONGEST_ERROR:
            return f"a message of more than {LONGEST_ERROR:,} characters about {message[:120]!r}"
        return "" if message.strip() else "an error without a message"
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        return f"{problem_of(error)} about {repr(example)[:300]}"
    return ""


# ---------------------------------------- models


@functools.cache
def _flan() -> tuple[Any, Any]:
    return material.loaded(material.flan_folder())


@functools.cache
def _bert() -> tuple[Any, Any]:
    return material.loaded(material.bert_folder())


MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {"FLAN": _flan, "BERT": _bert}


@functools.cache
def _cut(family: str) -> af.Cut:
    return af.cut(MODELS[family]()[0])


@functools.cache
def _capture(family: str) -> af.Capture:
    tokenizer = MODELS[family]()[1]
    texts = ["a fine film and the dull plot", "superb acting", "thin"]
    return _cut(family).capture(**tokenizer(texts, padding=True, return_tensors="pt"))


@functools.cache
def _attributor(family: str, method: str, level: str) -> af.Attributor:
    return af.Attributor(_cut(family), MODELS[family]()[1], method=method, level=level)


@functools.cache
def _evaluator(family: str) -> af.Evaluator:
    return af.Evaluator(_cut(family), MODELS[family]()[1])


class _Untouched:
    """The model is afterwards as it was before, whatever happened."""

    def __init__(self, family: str) -> None:
        self.model = MODELS[family]()[0]

    def __enter__(self) -> None:
        self.before = Snapshot(self.model)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, af.AttnFaithError):
            assert_untouched(self.model, self.before)


# ---------------------------------------- words of all sorts

_letters = st.characters(codec=None, categories=None)
_hostile = st.sampled_from(
    [
        "",
        " ",
        "\n",
        "\x00",
        "\ud800",
        "\x1b[31m",
        "\u202e",
        "\u200b",
        "\ufeff",
        "é",
        "e\u0301",
        "👍🏽",
        "ﷺ",
        "<b>",
        "[MASK]",
        "[PAD]",
        "[UNK]",
        "[EOS]",
        "NA",
        "nan",
        "None",
        "null",
        "1e400",
        "-0",
        "w" * 3000,
        "a " * 300,
        "\r\n",
        "\u2028",
        "#",
    ]
)
_word = st.one_of(st.sampled_from(commands.WORDS), st.text(_letters, max_size=6), _hostile)
_text = st.one_of(
    st.lists(_word, max_size=12).map(" ".join), st.text(_letters, max_size=40), st.lists(_word, max_size=6).map("".join)
)
_number = st.one_of(
    st.integers(-3, 5),
    st.sampled_from([2**31, -(2**63), 10**30, 0.5, -0.0, 1e308, math.inf, -math.inf, math.nan]),
    st.floats(),
)
_plain = st.one_of(st.none(), st.booleans(), _number, _text)
_odd = st.recursive(
    st.one_of(
        _plain,
        st.binary(max_size=8),
        st.datetimes(),
        st.dates(),
        st.decimals(),
        st.complex_numbers(),
        st.just(object()),
        st.just(...),
        st.just(int),
        st.fractions(),
        st.uuids(),
        st.just(pd.NaT),
        st.just(pd.NA),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=3), inner, max_size=2),
        st.tuples(inner),
        st.tuples(inner, inner),
    ),
    max_leaves=4,
)
_label = st.one_of(st.sampled_from([0, 1, "0", "1", "good", "bad", 1.0, True]), _odd)


# ---------------------------------------- texts


def texts() -> SearchStrategy[Any]:
    """A text, a pair, a list of them, for one of several methods."""
    item = st.one_of(_text, st.tuples(_text, _text))
    given = st.one_of(item, st.lists(item, max_size=4), _odd)
    method = st.sampled_from(
        [("attention", "attention"), ("gradient", "input"), ("lrp", "input"), ("random", "attention")]
    )
    return st.tuples(st.sampled_from(sorted(MODELS)), method, given)


def explained(example: Any) -> None:
    """As many finite scores as items, JSON without NaN, and one explanation for each text."""
    family, (method, level), given = example
    with _Untouched(family):
        result = _attributor(family, method, level)(given)
        results = result if isinstance(given, list) else [result]
        assert len(results) == (len(given) if isinstance(given, list) else 1)
        for item in results:
            assert len(item.scores) == len(item.spans) == len(item.tokens)
            assert all(math.isfinite(score) for score in item.scores) or item.notes, (
                "scores that are no numbers, unsaid"
            )
            assert sorted(item.ranking()) == list(range(len(item.scores)))
            json.dumps(item.to_dict(), allow_nan=False)
            item._repr_html_().encode("utf-8"), repr(item), item.words(), item.sentences()


# ---------------------------------------- data


def cells() -> SearchStrategy[Any]:
    """Rows of any cells, in each of the containers."""
    row = st.fixed_dictionaries(
        {"text": st.one_of(_text, _text, _text, _odd), "label": _label}, optional={"scores": _odd, "x": _odd}
    )
    pair = st.sampled_from(["list", "frame", "columns", "tuple", "generator", "odd"])
    return st.tuples(pair, st.lists(row, max_size=6), st.booleans(), st.sampled_from([None, "scores"]))


def evaluated_cells(example: Any) -> None:
    """What comes out counts every row: judged or set aside."""
    kind, rows, labelled, scores = example
    data: Any = {
        "list": lambda: rows,
        "frame": lambda: pd.DataFrame(rows),
        "columns": lambda: {name: [row.get(name) for row in rows] for name in ("text", "label")},
        "tuple": lambda: tuple(rows),
        "generator": lambda: (row for row in rows),
        "odd": lambda: rows[0]["text"] if rows else None,
    }[kind]()
    explanations = {"mine": scores} if scores else None
    _evaluate(data, len(rows), label_column="label" if labelled else None, explanations=explanations)


def _evaluate(data: Any, count: int | None, **options: Any) -> None:
    with _Untouched("FLAN"):
        asked = {"rankings": ["attention"], "tests": ["erasure"], "level": "attention", "n_resamples": 9, "quiet": True}
        results = _evaluator("FLAN").compute(data, **{**asked, **options})
        counts = results.manifest["counts"]
        assert count is None or counts["rows"] == count, f"{counts['rows']} rows of {count}"
        assert counts["texts"] + sum(counts["aside"].values()) == counts["rows"]
        table = results.table("texts")
        assert len(table) == counts["rows"]
        assert results.verdict.label in ("faithful", "partly", "unfaithful", "undecided", "unfaithful or partly")
        str(results), results.summary()
        fractions = results.table("erasure")["fraction"].dropna()
        assert ((fractions >= 0) & (fractions <= 1)).all()


_FILES = [".csv", ".tsv", ".jsonl", ".json", ".parquet"]


def files() -> SearchStrategy[Any]:
    """Files of data: well-formed ones with any cells, and bytes that are damaged or just any."""
    row = st.fixed_dictionaries({"text": _text, "label": st.sampled_from([0, 1])}, optional={"more": _plain})
    damage = st.one_of(
        st.none(), st.tuples(st.integers(0, 2**16), st.binary(min_size=1, max_size=6)), st.integers(0, 2**16)
    )
    return st.tuples(
        st.sampled_from(_FILES),
        st.lists(row, max_size=6),
        damage,
        st.one_of(st.none(), st.none(), st.binary(max_size=60)),
    )


def evaluated_files(example: Any) -> None:
    """An undamaged file is read with all its rows; a damaged one is read or refused."""
    suffix, rows, damage, raw = example
    content = _file_of(suffix, rows) if raw is None else raw
    if isinstance(damage, tuple):
        index = damage[0] % (len(content) + 1)
        content = content[:index] + damage[1] + content[index + len(damage[1]) :]
    elif isinstance(damage, int):
        content = content[: damage % (len(content) + 1)]
    path = material.scratch() / f"data{suffix}"
    path.write_bytes(content)
    whole = raw is None and damage is None and rows and any(row["text"].strip() for row in rows)
    _evaluate(path, len(rows) if whole and suffix not in (".csv", ".tsv") else None)


def _file_of(suffix: str, rows: list[dict[str, Any]]) -> bytes:
    if suffix == ".parquet":
        columns = {name: [_utf8(row[name]) for row in rows] for name in ("text", "label")}
        sink = io.BytesIO()
        pq.write_table(pa.table(columns, pa.schema([("text", pa.string()), ("label", pa.int64())])), sink)
        return sink.getvalue()
    if suffix in (".csv", ".tsv"):
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, delimiter="," if suffix == ".csv" else "\t")
        writer.writerow(["text", "label"])
        writer.writerows([row["text"].replace("\x00", ""), row["label"]] for row in rows)
        return stream.getvalue().encode("utf-8", "replace")
    if suffix == ".json":
        return json.dumps(rows).encode()
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _utf8(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


# ---------------------------------------- tensors into a cut


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
    with _Untouched(family):
        capture = _cut(family).capture(**inputs)
        assert capture.logits.isfinite().all()
        assert (capture.weights.masked_fill(capture.mask[:, None], 0) == 0).all(), "weight on padding"
        same = _cut(family).rerun(capture, keep=capture.mask[:, None])[:, 0]
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
    cut, capture = _cut(family), _capture(family)
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
    with _Untouched(family):
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
    cut, capture = _cut(family), _capture(family)
    draws = torch.rand(capture.weights.shape, generator=torch.Generator().manual_seed(seed))
    given: Any = (capture.weights * scale + draws * other * capture.mask[:, None])[:, None]
    changed = {
        "narrow": lambda: given[..., :-1],
        "flat": lambda: given[:, 0],
        "double": lambda: given.double(),
        "half": lambda: given.half(),
        "list": lambda: given.tolist(),
    }
    with _Untouched(family):
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


# ---------------------------------------- logits


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


# ---------------------------------------- options

_OPTIONS = """rankings explanations level tests target output steps hide special_tokens protect_deciding batch_size seed
n_resamples confidence_level subset split input_column second_input_column label_column label_mapping rationale_column
random_state""".split()
_MAKING = "method level target output decision steps baseline layer head epsilon max_length batch_size seed".split()


def options() -> SearchStrategy[Any]:
    """One to three options of `Evaluator.compute` or `Attributor`, of any type."""
    words = st.sampled_from(
        [
            "all",
            "attention",
            "input",
            "both",
            "erasure",
            "gradient",
            "lrp",
            "predicted",
            "gold",
            "good",
            "pad",
            "delete",
            "zero",
            "mask_token",
            "attention_mask",
            "protect",
            "include",
            "logit",
            "probability",
            "text",
            "label",
            "x" * 10_000,
        ]
    )
    value = st.one_of(words, st.lists(words, max_size=2), _odd, _number, st.dictionaries(words, _odd, max_size=2))
    compute = st.dictionaries(st.sampled_from(_OPTIONS), value, min_size=1, max_size=3)
    making = st.dictionaries(st.sampled_from(_MAKING), value, min_size=1, max_size=3)
    return st.one_of(st.tuples(st.just("compute"), compute), st.tuples(st.just("Attributor"), making))


def optioned(example: Any) -> None:
    """What is taken works."""
    where, given = example
    given = {name: value for name, value in given.items() if not (name in _COSTLY and _costs(value))}
    if where == "compute":
        _evaluate([{"text": text, "label": number % 2} for number, text in enumerate(commands.texts(3))], None, **given)
        return
    with _Untouched("FLAN"):
        explanation = af.Attributor(*MODELS["FLAN"](), **given)("a fine film")
        assert len(explanation.scores) == 3


_COSTLY = ("steps", "n_resamples", "batch_size", "max_length")


def _costs(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 50


def arguments() -> SearchStrategy[Any]:
    """Command lines."""
    flags = st.sampled_from(
        """--rankings --tests --level --hide --target --steps --decision --tolerance --max-length --batch-size --device
        --resamples --confidence --seed --option --explanation --label-map --text-column --label-column --split --subset
        --special-tokens --ranking-output --rationale-column --second-text-column --bounds --json --quiet --no-labels
        --protect-deciding --nothing""".split()
    )
    value = st.one_of(
        st.sampled_from(
            ["", "all", "attention", "1", "-1", "0", "nan", "1e99", "a=b", "=", "erasure.bounds=x", "x" * 5000]
        ),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8),
    )
    return st.lists(st.tuples(flags, value), max_size=3)


def commanded(example: Any) -> None:
    """Exit code 0, 1 with a message, or 2; never a traceback."""
    from typer.testing import CliRunner

    from attnfaith.cli.app import app

    given = [part for pair in example for part in pair]
    output = material.fresh("command") / "run"
    quick = ["--resamples", "9", "--rankings", "attention", "--level", "attention", "--quiet"]
    asked = ["evaluate", str(material.flan_folder()), material.reviews(6), "--output", str(output), *quick, *given]
    result = CliRunner().invoke(app, asked, prog_name="attnfaith")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in (0, 1, 2), f"exit code {result.exit_code}"
    assert result.exit_code == 0 or result.stderr.strip(), "refused without a word"


# ---------------------------------------- stored runs


def manifests() -> SearchStrategy[Any]:
    """A manifest of a stored run with entries replaced by anything that JSON can hold, or any bytes in its place."""
    value = st.recursive(
        _plain,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_text, inner, max_size=3)),
        max_leaves=5,
    )
    edits = st.lists(st.tuples(st.integers(0, 2**16), value), min_size=1, max_size=3)
    return st.one_of(edits, edits, st.binary(max_size=80), st.integers(0, 2**16))


def reread(example: Any) -> None:
    """A run whose manifest was edited is refused, or says what it said."""
    from tests.faults.parts import stored

    mutate = functools.partial(_rewritten, example=example)
    problem = stored._tried(mutate, random.Random(0))
    assert not problem, problem


def _rewritten(folder: Path, *, example: Any) -> str:
    from tests.faults.parts.stored import _entries

    path = folder / "manifest.json"
    if isinstance(example, bytes):
        path.write_bytes(example)
    elif isinstance(example, int):
        content = path.read_bytes()
        path.write_bytes(content[: example % len(content)])
    else:
        manifest = json.loads(path.read_text())
        for number, value in example:
            entries = list(_entries(manifest))
            if not entries:
                break
            *inner, last = entries[number % len(entries)]
            functools.reduce(lambda part, name: part[name], inner, manifest)[last] = value  # type: ignore[index]
        path.write_text(json.dumps(manifest, indent=2) + "\n")
    return "manifest.json"


PROPERTIES: dict[str, tuple[float, Callable[[], SearchStrategy[Any]], Callable[[Any], None]]] = {
    "texts: explain any text": (3, texts, explained),
    "cells: evaluate rows of any cells, in any container": (3, cells, evaluated_cells),
    "files: csv, tsv, JSON lines, JSON and parquet of any bytes": (3, files, evaluated_files),
    "ids and masks: capture tensors of any shape, type and value": (3, ids, captured),
    "masks of what stays: erase any set": (2, keeps, erased),
    "weights: rerun on any attention": (2, weights, reweighted),
    "logits: decisions, probabilities, divergences": (2, logits, decided),
    "weights of models: logits that are huge or no numbers": (1, extremes, extreme_models),
    "options: any value of any option in Python": (4, options, optioned),
    "arguments: any command line": (2, arguments, commanded),
    "stored runs: any manifest": (2, manifests, reread),
}

PART = Part(
    title="Made-up input",
    promise="Whatever the texts, cells, files, masks, ids, weights, options and stored runs are, you get a right "
    "result or one of the errors of `attnfaith.errors`, never another one; and your model is as it was "
    "before.",
    run=run,
    short=0.03,
)
