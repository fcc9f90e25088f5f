"""Made-up texts of tiny models on their way through the engine's tests, in float64; their decisions flip."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attnfaith as af
from attnfaith.attribution.request import MethodOptions
from attnfaith.data.source import Row
from attnfaith.evaluation.batch import Batch, RunConfig
from attnfaith.evaluation.rankings import Ranking
from attnfaith.evaluation.tests.erasure.test import Erasure
from attnfaith.evaluation.token_hiding import Hiding, hiding_for
from attnfaith.functional.decision import Decision
from attnfaith.text.encoded import EncodedText
from attnfaith.text.encoder import special_ids_of
from attnfaith.tiny_models import tiny_model
from tests.helpers.comparing import inputs_of

SIZES = {"multiclass": 3, "sigmoid": 1, "multilabel": 3, "regression": 1}
LENGTHS = (12, 7, 9, 4, 10, 5, 8, 6)
TOLERANCE = 0.2
MASK_ID = 4  # of every tiny model
RANDOM = {level: (Ranking("random", level),) for level in ("attention", "input")}


@lru_cache(maxsize=64)
def model_of(family: str, kind: str = "multiclass", seed: int = 0) -> nn.Module:
    """A tiny model whose decisions hang on its texts; shared, so nobody changes it."""
    if not family.startswith(("FLAN", "HAN")):
        return tiny_model(family, num_labels=SIZES[kind], dtype=torch.float64, seed=seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        sizes: dict[str, Any] = {"embedding_size": 16, **({} if family.endswith("noenc") else {"hidden_size": 12})}
        problem: dict[str, Any] = {"problem_type": "single_label_classification"} if kind == "sigmoid" else {}
        model = af.models.from_preset(family, num_labels=SIZES[kind], vocab_size=64, **sizes, **problem)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(0, 2 * parameter.shape[-1] ** -0.5)
    model = model.double().eval()
    with torch.no_grad():  # not the bias alone decides
        model.classifier.bias -= model(**inputs_of(model, lengths=LENGTHS, seed=2)).logits.mean(0)
    return model


@lru_cache(maxsize=64)
def cut_of(family: str, kind: str = "multiclass", seed: int = 0) -> af.Cut:
    """The same, cut."""
    return af.cut(model_of(family, kind, seed))


def slowly(*families: str) -> list[Any]:
    """Left out of the quick suite: networks of the papers as slow, Transformers for `make test-families`."""
    marks = [pytest.mark.slow if family.startswith(("FLAN", "HAN")) else pytest.mark.families for family in families]
    return [pytest.param(family, marks=mark) for family, mark in zip(families, marks, strict=True)]


@lru_cache(maxsize=64)
def shared_hiding(family: str, kind: str, hide: str | None) -> Hiding:
    """How tokens are hidden from the model of `cut_of`; the proof is about the model, whatever the texts."""
    cut = cut_of(family, kind)
    return hiding_of(cut, inputs_of(cut.model, lengths=LENGTHS, seed=2), hide)


def ranked(*names: str) -> tuple[Ranking, ...]:
    """Rankings from "level/name"."""
    return tuple(Ranking(name.split("/")[1], name.split("/")[0]) for name in names)


def hiding_of(cut: af.Cut, inputs: dict[str, Any], hide: str | None = None, *, left: bool = False) -> Hiding:
    """As a rehearsal finds it, from the longest text."""
    single = one_of(inputs, int(inputs["attention_mask"].sum(1).argmax()))
    return hiding_for(cut, single, hide=hide, mask_id=MASK_ID, left=left)


def one_of(inputs: dict[str, Tensor], text: int) -> dict[str, Tensor]:
    """One text without its padding."""
    there = inputs["attention_mask"][text].bool()
    return {name: value[text : text + 1, there] for name, value in inputs.items()}


def batch_of(
    family: str,
    kind: str = "multiclass",
    *,
    rankings: dict[str, tuple[Ranking, ...]] | None = None,
    lengths: tuple[int, ...] = LENGTHS,
    numbers: list[int] | None = None,
    inputs: dict[str, Any] | None = None,
    hide: str | None = None,
    seed: int = 0,
    cut: af.Cut | None = None,
    hiding: Hiding | None = None,
    labels: list[Any] | None = None,
    encoded: list[EncodedText] | None = None,
    scores: list[dict[str, Any]] | None = None,
    special_ids: frozenset[int] | None = None,
    **options: Any,
) -> Batch:
    """Texts of a family, captured."""
    rankings = {} if rankings is None else rankings
    if "input" in rankings and cut is None:
        hiding = shared_hiding(family, kind, hide)
    cut = cut_of(family, kind) if cut is None else cut
    inputs = inputs_of(cut.model, lengths=lengths, seed=2) if inputs is None else inputs
    if "input" in rankings and hiding is None:
        hiding = hiding_of(cut, inputs, hide)
    special = special_ids_of(cut.model.config) if special_ids is None else special_ids
    config = RunConfig(
        cut,
        Decision(kind, tolerance=TOLERANCE if kind == "regression" else None),  # type: ignore[arg-type]
        MethodOptions(seed=seed, mask_id=MASK_ID, special_ids=special),
        rankings=rankings,
        hiding=hiding,
        **options,
    )
    count = len(inputs["input_ids"])
    numbers = list(range(count)) if numbers is None else numbers
    given = zip(numbers, labels or [None] * count, scores or [{}] * count, strict=True)
    rows = [Row(number, "made up", label=label, scores=own_scores) for number, label, own_scores in given]
    blank = [EncodedText(f"text {number}", None, (), {}, (), (), (), ()) for number in numbers]
    return Batch(config, rows, encoded or blank, inputs)


def table(columns: dict[str, list[Any]]) -> dict[tuple[int, str, str, str], dict[str, Any]]:
    """Rows by (text, ranking's level, ranking, level of erasing); each is there once."""
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    result = {(row["text_id"], row["ranking_level"], row["ranking"], row["erase_level"]): row for row in rows}
    assert len(result) == len(rows)
    return result


class Sizes:
    """What the erasure test says of each text's smallest flipping set; None for texts of fewer than two items."""

    low: list[int | None]
    high: list[int | None]
    flippable: list[bool | None]

    def __init__(self, batch: Batch, level: str = "attention", *, bounds: bool = False) -> None:
        batch.config.rankings.setdefault(level, RANDOM[level])
        rows = {key[0]: row for key, row in table(Erasure(bounds=bounds).run(batch)).items() if key[3] == level}
        numbers = [row.number for row in batch.rows]
        for name, column in (("low", "minimum_low"), ("high", "minimum_high"), ("flippable", "flippable")):
            setattr(self, name, [rows[number][column] if number in rows else None for number in numbers])
