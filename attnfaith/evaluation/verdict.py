"""`Verdict`: whether attention can be read as an explanation; a pure function of the summary of a run.

The label rests on *skill*: how far attention goes from a random order (0) to the smallest flipping sets (1), counted in
efficiency, the share of what was removed that was needed. The scale begins at a random order because that does well by
itself on short texts: of three tokens, any order soon finds the one that matters.

- **unfaithful**: skill is less than `UNFAITHFUL`, even at the upper end of its interval.
- **faithful**: it is at least `FAITHFUL`, even at the lower end, and attention is better than a random order.
- **partly**: the interval lies between the two limits, and attention is better than a random order.
- **unfaithful or partly**, **partly or faithful**: the interval holds one limit; more texts would tell, and the verdict
  says about how many.
- **undecided**, with a reason: "few texts" (less than `FEW`), "few flips" (too few that some set is known to flip),
  "wide" (the interval holds both limits), "same" (attention may have skill, but is not distinguishable from a random
  order), "easy" (a random order itself hardly ever removes more than the smallest set does), "no texts" (none has two
  items), "no attention", "no control" (attention, or a random order, was not run), "no skill" (figures that leave out
  the texts that never flip), "no erasure" (the erasure test was not run: the label rests on nothing else).

"Better than a random order" is one planned test: the paired interval of the mean difference in the share removed lies
below 0. It is not corrected for the number of other rankings.

What is said of attention depends on the model, the texts, the seed and the options of the test alone, and not on which
other rankings were run. Where the smallest sets are not known exactly, the smallest that a fixed search finds take
their place, and skill is an upper estimate: "unfaithful" is then safe to say, and the other labels come with a word of
caution.

A model that was erased at both levels is judged at the input level: there a token is gone from every layer. A model
with an affine tail decides from its final attention alone, and is judged there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from attnfaith.escaping import visible
from attnfaith.estimates.lookup import SummaryLookup
from attnfaith.evaluation.tests.base import tests
from attnfaith.evaluation.verdict_rule import FEW, Label, Reason, judge, judged_level
from attnfaith.evaluation.verdict_table import RankingTable, ranking_table
from attnfaith.evaluation.verdict_text import capital, is_stuck, text_sentences, unjudged_sentences, verdict_sentences
from attnfaith.notebook import box, safe

__all__ = ["Verdict", "verdict"]


@dataclass(frozen=True, repr=False)
class Verdict:
    """Whether attention can be read as an explanation.

    Attributes:
        label: "faithful", "partly", "unfaithful", "unfaithful or partly", "partly or faithful" or "undecided".
        parts: the sentences by what they are about: "" for attention (the evidence, the conclusion, the level),
            "other rankings", each further test by its name, and "texts" for the texts behind it all.
        level: of erasing that the label is about, "attention" or "input"; None where nothing was erased.
        reason: why it is undecided, in a word or two; else empty.
        rankings: the table of all rankings, best first; None where there is nothing to compare.
    """

    label: str
    parts: Mapping[str, tuple[str, ...]]
    level: str | None = None
    reason: str = ""
    rankings: RankingTable | None = None

    @property
    def sentences(self) -> tuple[str, ...]:
        """All sentences, one after the other."""
        return tuple(sentence for part in self.parts.values() for sentence in part)

    @property
    def sections(self) -> list[tuple[str, RankingTable | None, tuple[str, ...]]]:
        """The parts after the headline: each heading with its table, if any, and its sentences."""
        return [
            (HEADINGS.get(name, capital(name.replace("_", " "))), self.rankings if name == RANKINGS else None, part)
            for name, part in self.parts.items()
            if name and (part or (name == RANKINGS and self.rankings is not None))
        ]

    def __str__(self) -> str:
        """The label, a line for each sentence, and the table of rankings; a heading above each part after the first.

        Example:
            >>> print(Verdict("partly", {"": ("It is so.",), "single_weight": ("Removed.",), "texts": ("9 texts.",)}))
            Attention as an explanation: partly.
            It is so.
            <BLANKLINE>
            Single weight
            Removed.
            <BLANKLINE>
            Texts
            9 texts.
        """
        lines = [self.headline, *self.parts.get("", ())]
        for heading, table, sentences in self.sections:
            lines += ["", heading, *sentences, *([] if table is None else [str(table)])]
        return visible("\n".join(lines), "\n")

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """HTML for notebooks: the label, the sentences under their headings, and the table of rankings."""
        parts = [f"<div><b>{safe(self.headline)}</b></div>", *map(_paragraph, self.parts.get("", ()))]
        for heading, table, sentences in self.sections:
            parts += [_HEADING.format(safe(heading)), *map(_paragraph, sentences)]
            parts += [] if table is None else [table._repr_html_()]
        return box(*parts)

    @property
    def headline(self) -> str:
        """The first line."""
        return f"Attention as an explanation: {self.label}."


_HEADING = '<div style="margin-top:12px"><b>{}</b></div>'


def _paragraph(sentence: str) -> str:
    return f"<div>{safe(sentence)}</div>"


RANKINGS = "other rankings"
HEADINGS = {RANKINGS: "Rankings, best first"}


def verdict(summary: pd.DataFrame, facts: Mapping[str, Any]) -> Verdict:
    """Judge attention by the summary of a run.

    Args:
        summary: of the tests that were run; the slice "all" is read. The label rests on the erasure test, the others
            add sentences.
        facts: what the figures are about: ``unit`` (what an item is, in the plural; or a mapping from level to that),
            ``special_tokens`` (whether they are among the items), ``tail_is_affine``,
            ``confidence_level``; and where there is something to say, ``decision`` (how the model decides), ``aside``
            (a count for each reason), ``texts`` and ``truncated`` (how many), ``hide`` (how tokens are hidden at the
            input level), ``left_out`` (for each level the rankings that the default leaves out, as "level/name"),
            ``part`` (the number of the part of the data, and of how many) and ``sample`` (the entry of the manifest,
            and how many ``rows`` there are).

    Example:
        >>> table = {"test": "erasure", "erase_level": "attention", "ranking": "attention", "other": "", "slice": "all"}
        >>> table |= {"ranking_level": "attention", "figure": "never_flipped", "value": 0.2, "low": 0.0, "high": 0.5}
        >>> facts = {"unit": "words", "special_tokens": False, "tail_is_affine": True, "confidence_level": 0.95}
        >>> found = verdict(pd.DataFrame([table | {"texts": 5, "note": ""}]), facts)
        >>> found.label, found.reason
        ('undecided', 'few texts')
    """
    confidence = float(facts["confidence_level"])
    lookups = {
        name: SummaryLookup(summary, name, confidence_level=confidence) for name in dict.fromkeys(summary["test"])
    }
    erasure = lookups.get("erasure", SummaryLookup(summary, confidence_level=confidence))
    few = facts.get("texts", FEW) < FEW
    told = {} if few else {name: tuple(tests[name].sentences(lookup, facts)) for name, lookup in lookups.items()}
    others = {name: sentences for name, sentences in told.items() if sentences}
    untold = few and any(name != "erasure" for name in lookups)
    first = "attention" if facts["tail_is_affine"] else "input"
    if not erasure.levels:
        reason = Reason.NO_TEXTS if "erasure" in lookups else Reason.NO_ERASURE
        short = summary.loc[(summary["figure"] == "too_short") & (summary["slice"] == "all"), "value"].max()
        texts = text_sentences(
            next(iter(lookups.values()), erasure), facts, level=first, too_short=short, reason=reason, untold=untold
        )
        return Verdict(
            str(Label.UNDECIDED), {"": unjudged_sentences(reason), **others, "texts": texts}, None, str(reason)
        )
    level = judged_level(erasure.levels, facts["tail_is_affine"])
    levels = [level, *(other for other in erasure.levels if other != level)]
    judged = {each: judge(erasure, each, erasure.key_of(each, "attention")) for each in levels}
    judgement = judged[level]
    parts = verdict_sentences(erasure, facts, judged, untold=untold)
    table = None if is_stuck(erasure, level, judgement) else ranking_table(erasure, facts, level)
    parts = {"": parts[""], RANKINGS: parts[RANKINGS], **others, "texts": parts["texts"]}
    return Verdict(str(judgement.label), parts, level, str(judgement.reason or ""), table)
