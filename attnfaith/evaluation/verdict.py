"""What a run says of attention, in words: a pure function of its summary.

The label rests on *skill*: how far attention goes from a random order (0) to the smallest flipping sets (1), counted in
efficiency, the share of what was removed that was needed. The scale begins at a random order because that does well by
itself on short texts: of three tokens, any order soon finds the one that matters.

- **unfaithful**: skill is less than `UNFAITHFUL`, even at the upper end of its interval.
- **faithful**: it is at least `FAITHFUL`, even at the lower end, and attention is better than a random order.
- **partly**: in between, and better than a random order.
- **undecided**, with a reason: "few texts" (less than `FEW`), "few flips" (too few that some set is known to flip),
  "wide" (the interval reaches from unfaithful to faithful), "same" (attention may have skill, but cannot be told from a
  random order), "easy" (a random order itself hardly ever removes more than the smallest set does), "rivals" (the
  smallest sets are not known of `SETTLED` of the texts, and fewer than `RIVALS` other rankings looked for small ones),
  "no texts" (none has two items), "no attention", "no control" (attention, or a random order, was not run), "no skill"
  (figures that leave out the texts that never flip), "no erasure" (the erasure test was not run: the label rests on
  nothing else).

"Better than a random order" takes two things: a paired interval of the mean difference in the fraction removed that
leaves out 0, and a sign test, corrected by Holm for all pairs of rankings.

Where the smallest sets are not known, the smallest ones found take their place, and skill is an upper estimate:
"unfaithful" is then safe to say, and the other labels come with a word of caution.

A Transformer that was erased at both levels is judged at the input level: there a token is gone from every layer. A
model in which nothing goes past the final attention (`kind` "affine") is judged there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from attnfaith.evaluation.protocol import tests
from attnfaith.evaluation.summaries.judging import FAITHFUL, FEW, RIVALS, SETTLED, UNFAITHFUL, judge
from attnfaith.evaluation.summaries.reading import Reader
from attnfaith.evaluation.summaries.speaking import LATE, REASONS, SILENT, Speaker, alpha_of, unjudged

__all__ = ["FAITHFUL", "FEW", "LATE", "RIVALS", "SETTLED", "SILENT", "UNFAITHFUL", "Verdict", "verdict"]


@dataclass(frozen=True)
class Verdict:
    """Whether attention can be read as an explanation.

    Attributes:
        label: "faithful", "partly", "unfaithful" or "undecided".
        sentences: the evidence, the conclusion, what it speaks of, warnings, and the texts behind it.
        level: of erasing that the label is about, "attention" or "input"; None where nothing was erased.
        reason: why it is undecided, in a word or two; else empty.
    """

    label: str
    sentences: tuple[str, ...]
    level: str | None = None
    reason: str = ""

    def __str__(self) -> str:
        return "\n".join((f"Attention as an explanation: {self.label}.", *self.sentences))


def verdict(summary: pd.DataFrame, facts: Mapping[str, Any]) -> Verdict:
    """Judge attention by the summary of a run.

    Args:
        summary: of the tests that were run; the slice "all" is read. The label rests on the erasure test, the others
            add sentences.
        facts: what the figures are about: ``unit`` (what an item is, in the plural; or a mapping from level to that),
            ``special_tokens`` (whether they are among the items), ``kind`` ("affine" or "transformer"),
            ``confidence_level``; and where there is something to say, ``decision`` (how the model decides), ``aside``
            (a count for each reason), ``texts`` and ``truncated`` (how many) and ``hide`` (how tokens are hidden at the
            input level).

    Example:
        >>> table = {"test": "erasure", "erase_level": "attention", "ranking": "attention", "other": "", "slice": "all"}
        >>> table |= {"ranking_level": "attention", "figure": "never_flipped", "value": 0.2, "low": 0.0, "high": 0.5}
        >>> facts = {"unit": "words", "special_tokens": False, "kind": "affine", "confidence_level": 0.95}
        >>> found = verdict(pd.DataFrame([table | {"texts": 5, "note": ""}]), facts)
        >>> found.label, found.reason
        ('undecided', 'few texts')
    """
    figures = Reader(summary)
    others = [
        sentence
        for name in dict.fromkeys(summary["test"])
        for sentence in tests[name].sentences(Reader(summary, name), facts)
    ]
    first = "attention" if facts["kind"] == "affine" else "input"
    levels = sorted(figures.levels, key=lambda level: level != first)
    if not levels:
        reason = "no texts" if "erasure" in set(summary["test"]) else "no erasure"
        short = summary.loc[(summary["figure"] == "too_short") & (summary["slice"] == "all"), "value"].max()
        return Verdict("undecided", (REASONS[reason], *others, *unjudged(facts, short)), reason=reason)
    judged = {level: judge(figures, level, alpha_of(facts)) for level in levels}
    own = judged[levels[0]]
    return Verdict(own.label, Speaker(figures, facts, judged).sentences(others), levels[0], own.reason)
