"""The models that made-up input is given to, and a check that they are afterwards as they were before."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import attnfaith as af
from tests.contracts.test_cut_leaves_nothing_behind import Snapshot, assert_untouched
from tests.faults import material


@functools.cache
def _flan() -> tuple[Any, Any]:
    return material.loaded(material.flan_folder())


@functools.cache
def _bert() -> tuple[Any, Any]:
    return material.loaded(material.bert_folder())


MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {"FLAN": _flan, "BERT": _bert}


@functools.cache
def cut_of(family: str) -> af.Cut:
    return af.cut(MODELS[family]()[0])


@functools.cache
def capture_of(family: str) -> af.Capture:
    tokenizer = MODELS[family]()[1]
    texts = ["a fine film and the dull plot", "superb acting", "thin"]
    return cut_of(family).capture(**tokenizer(texts, padding=True, return_tensors="pt"))


@functools.cache
def attributor_of(family: str, method: str, level: str) -> af.Attributor:
    return af.Attributor(cut_of(family), MODELS[family]()[1], method=method, level=level)


@functools.cache
def evaluator_of(family: str) -> af.Evaluator:
    return af.Evaluator(cut_of(family), MODELS[family]()[1])


class Untouched:
    """The model is afterwards as it was before, whatever happened."""

    def __init__(self, family: str) -> None:
        self.model = MODELS[family]()[0]

    def __enter__(self) -> None:
        self.before = Snapshot(self.model)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, af.AttnFaithError):
            assert_untouched(self.model, self.before)
