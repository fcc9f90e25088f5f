"""Does the verdict depend on how tokens are hidden? The same texts, erased at the input level in several ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from attnfaith import validation
from attnfaith.attribution.method import ATTENTION
from attnfaith.errors import AttnFaithError, InputError
from attnfaith.escaping import visible
from attnfaith.estimates.differences import points_apart, rows_of
from attnfaith.estimates.lookup import SummaryLookup, SummaryValue, listed
from attnfaith.evaluation.evaluator import Evaluator
from attnfaith.evaluation.results import Results
from attnfaith.evaluation.run_comparison import compare_runs
from attnfaith.evaluation.token_hiding import WAYS
from attnfaith.evaluation.verdict_table import RankingTable
from attnfaith.parameter_names import parameter

USUAL = ("attention_mask", "mask_token", "delete")
TESTS = ("erasure", "in_distribution")
_FIXED = ("hide", "level", "output_dir", "part")
_COLUMNS = ("attention removes", "random removes", "attention never flips", "skill", "out of distribution")


@dataclass(frozen=True, repr=False)
class HidingComparison:
    """Runs on the same texts that differ in how tokens are hidden; print it.

    Attributes:
        runs: the results by way of hiding.
        refused: by way of hiding, why the model cannot be evaluated so.
    """

    runs: Mapping[str, Results]
    refused: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def labels(self) -> dict[str, str]:
        """The label of the verdict by way of hiding."""
        return {way: results.verdict.label for way, results in self.runs.items()}

    @cached_property
    def table(self) -> RankingTable:
        """A row for each way: the label, shares removed, skill, flips out of distribution, and what differs."""
        first = next(iter(self.runs))
        rows = [(way, *self._cells(way), "" if way == first else self._against(first, way)) for way in self.runs]
        heads = ("tokens", "label", *_COLUMNS)
        return RankingTable((*heads, f"attention removes, beside {first}"), tuple(rows))

    @cached_property
    def sentences(self) -> list[str]:
        """Whether the label depends on how tokens are hidden, and which ways do not work on the model."""
        by_label: dict[str, list[str]] = {}
        for way, label in self.labels.items():
            by_label.setdefault(label, []).append(way)
        if len(self.runs) < 2:
            result = ["Tokens could be hidden in one way only: there is nothing to compare."]
        elif len(by_label) == 1:
            result = [f"The label does not depend on how tokens are hidden: {next(iter(by_label))}, in all ways."]
        else:
            parts = [f"{label} with {listed(ways)}" for label, ways in by_label.items()]
            result = [f"The label depends on how tokens are hidden: {'; '.join(parts)}."]
        return [*result, *(f"Not with {way}: {visible(reason)}" for way, reason in self.refused.items())]

    def __str__(self) -> str:
        """The table and the sentences."""
        return "\n".join([str(self.table), "", *self.sentences])

    __repr__ = __str__

    def _cells(self, way: str) -> tuple[str, ...]:
        results, level = self.runs[way], "input"
        confidence = results.manifest["statistics"]["confidence_level"]
        summary = results.summary()
        erased = SummaryLookup(summary, "erasure", confidence_level=confidence)
        key, control = erased.key_of(level, ATTENTION), erased.control(level)
        clear = SummaryLookup(summary, "in_distribution", confidence_level=confidence)
        asked = (
            (erased, "mean_fraction", key),
            (erased, "mean_fraction", control),
            (erased, "never_flipped", key),
            (erased, "skill", key),
            (clear, "out_of_distribution", clear.key_of(level, ATTENTION)),
        )
        values = (SummaryValue() if item is None else lookup.get(level, figure, item) for lookup, figure, item in asked)
        return self.labels[way], *map(_cell, values)

    def _against(self, first: str, way: str) -> str:
        """The difference in the share that attention removes, paired by text."""
        found = compare_runs(self.runs[first], self.runs[way], (first, way), paired=True, **self._statistics).figures
        rows = [row for row in rows_of(found, "erasure", "mean_fraction") if row.ranking == ATTENTION]
        if not rows:
            return ""
        return points_apart(rows[0])

    @property
    def _statistics(self) -> dict[str, Any]:
        results = next(iter(self.runs.values()))
        return {**results.manifest["statistics"], "seed": results.manifest["run"]["seed"]}


def compare_hiding(
    evaluator: Evaluator,
    data: Any,
    *,
    ways: Sequence[str] = USUAL,
    output_dir: str | Path | None = None,
    **options: Any,
) -> HidingComparison:
    """Erase the same texts at the input level, with tokens hidden in several ways.

    Args:
        evaluator: of the model.
        data: as `Evaluator.compute` takes it.
        ways: of hiding, as ``hide`` of `Evaluator.compute`; the first is what the others are compared with.
        output_dir: a folder, in which each way gets a folder of its own; temporary ones by default.
        **options: further arguments of `Evaluator.compute`. Without ``tests`` they are "erasure" and "in_distribution",
            and without ``rankings`` attention and a random order: what is said of attention needs no others.

    Returns:
        A `HidingComparison`; print it. A way that does not hide tokens from the model is listed as refused.

    Example:
        >>> import attnfaith as af
        >>> texts = ["a fine film", "a dull film, sadly", "fine acting in a dull plot", "dull plot"] * 6
        >>> tokenizer = af.models.WordTokenizer.train(texts, min_count=1)
        >>> model = af.models.from_preset("FLANrnn", num_labels=2, tokenizer=tokenizer)
        >>> compared = af.compare_hiding(
        ...     af.Evaluator(model, tokenizer), texts, ways=["delete", "zero"], n_resamples=99, quiet=True
        ... )
        >>> list(compared.runs), compared.table.columns[:2]
        (['delete', 'zero'], ('tokens', 'label'))
    """
    listed_ways = validation.several(ways, "ways")
    chosen = [listed_ways] if isinstance(listed_ways, str) else list(dict.fromkeys(listed_ways))
    for way in chosen:
        validation.one_of(way, WAYS, "ways")
    fixed = [name for name in _FIXED if name in options]
    if not chosen or fixed:
        raise InputError(
            f"Expected ways of hiding, and no {parameter(fixed[0])}, which compare_hiding sets itself."
            if fixed
            else f"Expected ways to name at least one of {', '.join(WAYS)}."
        )
    settings = {"tests": TESTS, "rankings": [ATTENTION], **options}
    runs, refused = {}, {}
    for way in chosen:
        folder = None if output_dir is None else Path(output_dir) / way
        try:
            runs[way] = evaluator.compute(data, hide=way, level="input", output_dir=folder, **settings)
        except AttnFaithError as error:
            if error.code != "cannot-hide":
                raise
            refused[way] = error.message
    if not runs:
        raise InputError(f"No way of hiding works: {'; '.join(refused.values())}", code="cannot-hide")
    return HidingComparison(runs, refused)


def _cell(value: SummaryValue) -> str:
    return str(value) if value.known else ""
