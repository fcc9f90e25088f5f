"""`Diagnostic`, the base class of the four, and the table of estimates that they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd
from torch import nn

from attnfaith.diagnostics.retraining import describe
from attnfaith.estimates.lookup import SummaryValue
from attnfaith.estimates.quantities import Number, Quantity, estimate_of, shared_means
from attnfaith.functional.statistics import Resamples
from attnfaith.registry import Registry

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attnfaith.diagnostics.session import Plan, Session

Tables = Mapping[str, pd.DataFrame]
"""The tables of a diagnosis by name."""

COLUMNS = ("diagnostic", "figure", "of", "value", "low", "high", "texts", "note")
WIEGREFFE_PINTER = """\
@inproceedings{wiegreffe2019attention,
  title = {Attention is not not Explanation},
  author = {Wiegreffe, Sarah and Pinter, Yuval},
  booktitle = {Proceedings of the 2019 Conference on Empirical Methods in Natural Language Processing and the 9th
    International Joint Conference on Natural Language Processing},
  year = {2019},
}"""


class Diagnostic(ABC):
    """One of Wiegreffe & Pinter's tests.

    Attributes:
        name: of the diagnostic, and of its table.
        heading: the name in words.
        question: that it answers, in one sentence.
        reading: how to read its figure.
        caveats: what its numbers do not say.
        reported: the estimates that a report shows, and what it calls them.
        percentages: those of them that are shares.
        differences: those of them that are differences of shares.
    """

    name: ClassVar[str]
    heading: ClassVar[str]
    question: ClassVar[str]
    reading: ClassVar[str]
    caveats: ClassVar[tuple[str, ...]]
    reported: ClassVar[Mapping[str, str]]
    percentages: ClassVar[tuple[str, ...]] = ()
    differences: ClassVar[tuple[str, ...]] = ()
    citation: ClassVar[str] = WIEGREFFE_PINTER

    @abstractmethod
    def plans(self, session: Session) -> list[Plan]:
        """The models that have to be trained for it."""

    @classmethod
    def train(cls, session: Session, plan: Plan) -> tuple[Any, dict[str, Any]]:
        """Train a model of the kind that is named after the diagnostic; returns it with the record of its training.

        By default the model is trained as the diagnosed one was.
        """
        model, history = session.train(plan)
        return model, describe(history)

    @classmethod
    def as_trained(cls, model: nn.Module) -> AbstractContextManager[Any]:
        """A context in which such a model computes what it computed while it was trained."""
        return nullcontext()

    @abstractmethod
    def measure(self, session: Session) -> dict[str, pd.DataFrame]:
        """Its tables by name, from the outputs of the models; the names begin with its own."""

    @abstractmethod
    def summarise(self, tables: Tables, facts: Mapping[str, Any], options: Mapping[str, Any]) -> pd.DataFrame:
        """Its estimates with intervals, see `COLUMNS`.

        Args:
            tables: of the diagnosis.
            facts: of the diagnosis.
            options: of the intervals: ``resamples``, ``confidence`` and ``seed`` of `Resamples`.
        """

    @abstractmethod
    def sentences(self, figures: Figures, facts: Mapping[str, Any]) -> list[str]:
        """What came out, in a few sentences; the first one is the conclusion."""

    @abstractmethod
    def figure(self, tables: Tables, figures: Figures) -> Figure:
        """Its figure."""


diagnostics: Registry[str, type[Diagnostic]] = Registry("diagnostic")
"""The diagnostics by name, in the order in which they are run."""


def estimates(
    diagnostic: str, parts: Iterable[Quantity | Number], size: int, options: Mapping[str, Any]
) -> pd.DataFrame:
    """Estimates of quantities of the same texts, with intervals from common resamples.

    Args:
        diagnostic: the name of the diagnostic.
        parts: the quantities, and other numbers.
        size: the number of texts.
        options: of `Resamples`.
    """
    parts = list(parts)
    means = shared_means(parts, Resamples(size, **options))
    rows: list[tuple[Any, ...]] = []
    for part in parts:
        if isinstance(part, Number):
            rows.append((diagnostic, part.name, "", part.value, float("nan"), float("nan"), part.texts, part.note))
            continue
        estimate = estimate_of(part, means)
        others: Sequence[str] = [""] * len(estimate.value) if part.others is None else part.others
        for of, value, low, high, texts, note in zip(others, *estimate, part.notes(estimate), strict=True):
            rows.append((diagnostic, part.name, of, float(value), float(low), float(high), int(texts), note))
    return pd.DataFrame(rows, columns=list(COLUMNS))


@dataclass(frozen=True)
class Figures:
    """The estimates of one diagnostic."""

    summary: pd.DataFrame
    name: str

    def get(self, figure: str, of: str = "") -> SummaryValue:
        """One estimate; what is missing is unknown.

        Example:
            >>> row = ("seeds", "jsd", "", 0.1, 0.05, 0.2, 40, "")
            >>> figures = Figures(pd.DataFrame([row], columns=list(COLUMNS)), "seeds")
            >>> figures.get("jsd").value, figures.get("jsd", "seed 1").known
            (0.1, False)
        """
        table = self.summary
        rows = table[(table["diagnostic"] == self.name) & (table["figure"] == figure) & (table["of"] == of)]
        if rows.empty:
            return SummaryValue()
        row = rows.iloc[0]
        return SummaryValue(float(row["value"]), float(row["low"]), float(row["high"]), int(row["texts"]), row["note"])

    def names(self, figure: str) -> list[str]:
        """What there is an estimate of, apart from that of all."""
        return [name for name in self.all_names(figure) if name]

    def all_names(self, figure: str) -> list[str]:
        """What there is an estimate of; "" for all."""
        table = self.summary
        return table.loc[(table["diagnostic"] == self.name) & (table["figure"] == figure), "of"].tolist()
