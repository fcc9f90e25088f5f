"""Compare two stored runs: their settings, every estimate, and the main differences in sentences and cells."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from attnfaith.attribution.display_names import display_name
from attnfaith.attribution.method import YOURS
from attnfaith.escaping import visible
from attnfaith.evaluation.comparison import compare, sentences
from attnfaith.evaluation.results import Results
from attnfaith.evaluation.tests.base import tests
from attnfaith.parameter_names import parameter

OF_TEXTS = {"accuracy": "right", "confidence": "confidence", "special_weight": "weight on special tokens"}
"""What is shown of the texts themselves; of each test, its `headline`."""


@dataclass(frozen=True)
class RunComparison:
    """Two runs and the differences between them.

    Attributes:
        first: one run.
        second: the other one.
        names: of the two.
        paired: whether they are compared text by text.
        how: a sentence on that.
        figures: a row for each estimate, as `attnfaith.evaluation.comparison.compare` returns them.
    """

    first: Results
    second: Results
    names: tuple[str, str]
    paired: bool
    how: str
    figures: pd.DataFrame

    @property
    def sentences(self) -> list[str]:
        """How the runs are compared, and the main differences."""
        return [self.how, *map(visible, sentences(self.figures, self.names))]

    @cached_property
    def settings(self) -> list[tuple[str, Any, Any]]:
        """The settings that differ: a name and both values."""
        a, b = (dict(flat(_settings(results))) for results in (self.first, self.second))
        return [(name, a.get(name), b.get(name)) for name in dict.fromkeys([*a, *b]) if a.get(name) != b.get(name)]

    @property
    def columns(self) -> list[str]:
        """The heads of `rows`."""
        return ["erased at", "ranking", "figure", *self.names, "difference", "texts"]

    @property
    def rows(self) -> list[list[str]]:
        """The main estimates as text."""
        headlines = {"texts": OF_TEXTS} | {name: kind.headline for name, kind in tests.items()}
        level_names = {"texts": ""} | {name: kind.level_name for name, kind in tests.items()}
        return [
            _cells(row, headlines[row.test][row.figure], level_names[row.test])
            for row in self.figures.itertuples(index=False)
            if row.figure in headlines[row.test]
        ]


def compare_runs(
    first: Results,
    second: Results,
    names: tuple[str, str] = ("A", "B"),
    *,
    paired: bool | None = None,
    n_resamples: int = 9999,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> RunComparison:
    """Compare two runs.

    Args:
        first: one run.
        second: the other one.
        names: of the two.
        paired: whether row n is the same text in both; None if the data decide.
        n_resamples: the number of resamples of the texts.
        confidence_level: of the intervals.
        seed: of the resamples.
    """
    same_data = first.same_data(second)
    together = same_data if paired is None else paired
    figures = compare(
        first.tables,
        second.tables,
        paired=together,
        a_tests=first.ran,
        b_tests=second.ran,
        same_search=_search(first) == _search(second),
        n_resamples=n_resamples,
        confidence_level=confidence_level,
        seed=seed,
    )
    return RunComparison(first, second, names, together, _how(same_data, paired), figures)


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Flatten nested dicts to dotted paths.

    Example:
        >>> dict(flat({"seed": 0, "tests": {"erasure": {"bounds": False}}}))
        {'seed': 0, 'tests.erasure.bounds': False}
    """
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from flat(inner, f"{path}.{name}" if path else str(name))
    else:
        yield path, value


def setting_text(value: Any) -> str:
    """A setting as text.

    Example:
        >>> setting_text([0.1, 0.5]), setting_text(None)
        ('0.1, 0.5', 'none')
    """
    return ", ".join(map(str, value)) if isinstance(value, list) else "none" if value is None else str(value)


def short_setting(value: Any) -> str:
    """A setting in at most 60 characters."""
    text = visible(setting_text(value)[:100])
    return text if len(text) <= 60 else f"{text[:57]}..."


def _search(results: Results) -> tuple[Any, ...]:
    """The settings of the search for the smallest flipping sets."""
    erasure = results.tests.get("erasure", {})
    return results.manifest["run"].get("flipping_set_search"), erasure.get("bounds"), erasure.get("resolution")


def _how(same_data: bool, paired: bool | None) -> str:
    if same_data and paired is not False:
        return "Both runs read the same data, so they are compared text by text."
    if paired:
        return "The data differ, in texts, labels or scores; row n is taken as the same text in both, as you say."
    if same_data:
        return "Both runs read the same data, but are compared as two samples, as you say."
    return (
        "The data differ, in texts, labels or scores, so the runs are compared as two samples. If row n is the same "
        f"text in both, {parameter('paired', True)} tells smaller differences apart."
    )


def _settings(results: Results) -> dict[str, Any]:
    manifest = results.manifest
    return {
        "attnfaith": manifest.get("attnfaith"),
        "model name": manifest.get("facts", {}).get("model"),
        **manifest["run"],
        "versions": manifest.get("versions", {}),
    }


def _cells(row: Any, figure_name: str, level_name: str) -> list[str]:
    interval = "" if math.isnan(row.low) or math.isnan(row.high) else f" [{_signed(row.low)}, {_signed(row.high)}]"
    difference = row.note or ("undefined" if math.isnan(row.difference) else f"{_signed(row.difference)}{interval}")
    texts = str(row.texts_a) if row.texts_a == row.texts_b else f"{row.texts_a}, {row.texts_b}"
    same_level = row.ranking_level in ("", row.erase_level)
    ranking = display_name((row.ranking_level, row.ranking)) if row.ranking else ""
    ranking += "" if same_level else " (yours)" if row.ranking_level == YOURS else f" ({row.ranking_level} level)"
    level = level_name or row.erase_level
    return [visible(level), visible(ranking), figure_name, _value(row.a), _value(row.b), difference, texts]


def _value(number: float) -> str:
    return "undefined" if math.isnan(number) else f"{round(number, 3) + 0.0:.3f}"


def _signed(number: float) -> str:
    return f"{round(number, 3) + 0.0:+.3f}"  # never -0.000
