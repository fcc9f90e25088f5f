"""A verdict in sentences: the evidence, the conclusion, what it speaks of, warnings, and the texts behind it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from attnfaith.attribution.method import CONTROL, YOURS
from attnfaith.estimates.lookup import SummaryLookup, SummaryValue, listed, percent, points, unit_at
from attnfaith.estimates.pivot import Key
from attnfaith.evaluation.verdict_rule import (
    FAITHFUL,
    FEW,
    UNFAITHFUL,
    VerdictLabel,
    efficiency_of,
    is_near_chance,
    judge,
    sizes_known,
)

SILENT = 0.25
"""If no set is found that flips this share of the decisions at the final attention, the verdict says so."""
LATE = 0.05
"""A larger share of texts that flip only with everything removed is mentioned."""

PLACES = {"attention": "the final attention", "input": "the input level"}
WAYS = {
    "attention_mask": "hidden from every layer by the attention mask",
    "mask_token": "replaced by the mask token",
    "pad": "replaced by the padding token",
    "zero": "their word vectors replaced by zeros",
    "delete": "deleted from the text",
}
REASONS = {
    "no erasure": "Whether attention explains is judged by the erasure test, which was not run.",
    "no texts": "No text has two items or more to erase, so there is nothing to judge.",
    "no attention": "Attention was not among the rankings, so there is nothing to judge.",
    "no control": "No random order was run to compare with, so there is no verdict.",
    "few texts": f"There are too few texts to say anything: fewer than {FEW}.",
    "few flips": f"Too few decisions can be flipped to say anything: fewer than {FEW}.",
    "easy": "Even a random order hardly ever removes more than the smallest set does, so the test cannot tell good "
    "rankings from bad ones here.",
    "no skill": "These figures leave out texts that never flip, as the paper's do, and a verdict needs them.",
    "wide": "The interval of skill reaches from unfaithful to faithful.",
    "same": "Attention is not distinguishable from a random order on these texts.",
}
CONCLUSIONS = {
    "unfaithful": "Do not read attention as an explanation of this model.",
    "unfaithful or partly": "Do not read attention as an explanation of this model by itself. Whether it says anything "
    "about what decides is not settled.",
    "partly": "Attention says something about what decides, but do not read it as an explanation by itself.",
    "partly or faithful": "Attention says something about what decides. Whether it can be read as an explanation by "
    "itself is not settled.",
    "faithful": "As far as this test goes, attention can be read as a ranking of what decides in this model.",
}
CAUTION = (
    "The smallest sets here are the smallest that a search found. If there are smaller ones, attention is less "
    "faithful than this says."
)


class VerdictWriter:
    """Says what the figures of one run amount to.

    Args:
        figures: of the erasure test.
        facts: what the figures are about.
        judged: the label at each level; the first is the one that is spoken of.
    """

    def __init__(self, figures: SummaryLookup, facts: Mapping[str, Any], judged: Mapping[str, VerdictLabel]) -> None:
        self.figures, self.facts, self.judged = figures, facts, judged
        self.level, *self.others = judged
        self.key: Key = figures.place(self.level, "attention") or ("", "")
        self.unit = self.unit_at(self.level)

    def judgement(self) -> tuple[str, ...]:
        """The evidence, the conclusion, and what it speaks of; the same whatever other rankings were run."""
        own = self.judged[self.level]
        seen = own.reason not in ("no attention", "few texts", "no control")
        parts = [self._evidence() if seen else (), self._conclusion(own), self._levels()]
        return tuple(sentence for part in parts for sentence in part)

    def rankings(self) -> tuple[str, ...]:
        """What is found of the other rankings."""
        return (*self._rival(), *self._yours(), *self._warnings())

    def texts(self) -> tuple[str, ...]:
        """The texts behind it."""
        return tuple(self._data())

    def unit_at(self, level: str) -> str:
        """What an item of a level is, in the plural."""
        return unit_at(self.facts["unit"], level)

    def _get(self, figure: str, key: Key = ("", ""), other: Key | None = None) -> SummaryValue:
        return self.figures.get(self.level, figure, key, other)

    def _never(self, level: str) -> SummaryValue:
        return self.figures.get(level, "never_flipped", self.figures.place(level, "attention") or ("", ""))

    def _evidence(self) -> Iterator[str]:
        yield self._opening()
        yield self._against_control()
        skill = self._get("skill", self.key)
        if skill.known:
            control = self.figures.control(self.level) or ("", "")
            own, chance = (efficiency_of(self.figures, self.level, key) for key in (self.key, control))
            found, most = ("", "") if self._exact else (" found", "at most ")
            yield (
                f"Efficiency, the size of the smallest set{found} over the number of {self.unit} removed, is "
                f"{most}{own} for attention and {most}{chance} for a random order."
            )
            yield (
                f"On a scale from a random order (0 %) to the smallest sets{found} (100 %), the skill of attention is "
                f"{skill}: {percent(FAITHFUL)} or more is faithful, less than {percent(UNFAITHFUL)} unfaithful."
            )

    @property
    def _exact(self) -> bool:
        return sizes_known(self.figures, self.level)

    def _opening(self) -> str:
        """How much attention removes, and how little would do."""
        first = f"Attention flips the decision after removing {self._removes(self.key)} of the {self.unit} on average"
        smallest = self._get("minimum_fraction_mean" if self._exact else "minimum_fraction_mean_high")
        found = "" if self._exact else " found"
        second = f"; the smallest sets{found} that flip it hold {smallest}" if smallest.known else ""
        return f"{first}{second}."

    def _removes(self, key: Key) -> SummaryValue:
        """The mean share of the items that a ranking removes."""
        return self._get("mean_fraction", key)

    def _against_control(self) -> str:
        control = self.figures.control(self.level) or ("", "")
        gap = self._get("mean_difference", self.key, control)
        opening = f"A random order removes {self._removes(control)}"
        found = self.figures.against_control(self.level, self.key)
        if found == "better":
            return f"{opening}: attention removes {points(gap)} less, so it is better than a random order."
        if found == "worse":
            return f"{opening}: attention removes {points(gap)} more, so it is worse than a random order."
        return f"{opening}: attention is not distinguishable from a random order."

    def _rival(self) -> Iterator[str]:
        rivals = self.figures.rivals(self.level, self.key)
        if not rivals or not self.key[1]:
            return
        name, removes = self.figures.said(self.level, rivals[0]), self._removes(rivals[0])
        gap = self._get("mean_difference", self.key, rivals[0])
        if gap.low > 0:
            yield f"{capital(name)}, the best of the other rankings that were run, removes {removes}."
        elif gap.high < 0:
            yield f"No other ranking that was run removes as little; the next best, {name}, removes {removes}."
        else:
            yield f"No other ranking that was run is clearly better; the best of them, {name}, removes {removes}."

    def _conclusion(self, own: VerdictLabel) -> Iterator[str]:
        yield REASONS[own.reason] if own.reason else CONCLUSIONS[own.label]
        if own.needed is not None and math.isinf(own.needed):
            yield "More texts are unlikely to settle it: skill lies at the limit."
        elif own.needed is not None:
            yield f"About {own.needed:,.0f} texts like these would settle it, if skill stays as it is."
        if "partly" in own.label or own.label == "faithful":
            yield from () if self._exact else (CAUTION,)

    def _yours(self) -> Iterator[str]:
        """What is found of each ranking that the user brought: the same label, by the same rule."""
        for key in self.figures.keys(self.level):
            if key[0] != YOURS:
                continue
            found, skill = judge(self.figures, self.level, key), self._get("skill", key)
            gap = self._get("mean_difference", key, self.key if self.key[1] else None)
            beside = ""
            if gap.known:
                better = "less than attention" if gap.high < 0 else "more than attention" if gap.low > 0 else ""
                beside = f", {points(gap)} {better}" if better else ", with no clear difference from attention"
            worth = f" Its skill is {skill}." if skill.known else ""
            yield f"Your ranking {key[1]!r}: {found.label}. It removes {self._removes(key)}{beside}.{worth}"

    def _levels(self) -> Iterator[str]:
        """Which level is spoken of, how much never flips, and whether the other one says something else."""
        way = self.facts.get("hide")
        how = {
            "attention": f"the weights of {self.unit} are set to 0 there, and nowhere else",
            "input": f"{self.unit} are taken away from the whole model" + (f" ({WAYS.get(way, way)})" if way else ""),
        }
        yield f"This speaks of {PLACES[self.level]}: {how[self.level]}."
        never = {level: self._never(level) for level in self.judged}
        parts = [f"on {never[level]} of the texts at {PLACES[level]}" for level in never if never[level].known]
        if parts:
            yield f"Attention never flips the decision {listed(parts)}."
        yield from self._silence()
        own = self.judged[self.level]
        for other in self.others:
            place, second = PLACES[other], self.judged[other]
            if second.label != own.label:
                yield f"The two levels differ: judged at {place} alone, the verdict would be {second.label}."
            elif never[self.level].clear_of(never[other]):
                yield f"The two levels differ in how much flips; judged at {place} alone, the verdict is the same."
            else:
                yield f"Judged at {place} alone, the verdict is the same."

    def _silence(self) -> Iterator[str]:
        """Why this level is judged, or why another would better be."""
        if self.facts["tail_is_affine"]:
            if self.others:
                yield "It is judged because this model decides from its final attention alone."
            return
        flips = self.figures.get("attention", "flippable")
        kept = SummaryValue(1 - flips.value, 1 - flips.high, 1 - flips.low)
        silent = f"At the final attention no set of items was found that flips {kept} of the decisions"
        if self.level == "attention" and kept.value >= SILENT:
            yield f"{silent}. Erasing at the input level (level='input') would say more."
        elif self.others and kept.value >= SILENT:
            yield f"{silent}, so the input level is judged."
        elif self.others:
            yield "It is judged because there a token is gone from every layer, and not from the last one only."

    def _warnings(self) -> Iterator[str]:
        for level in self.judged:
            if self.figures.control(level) is None:
                continue
            groups: dict[str, list[str]] = {"same": [], "worse": [], "better": []}
            for key in self.figures.keys(level):
                if key[1] != CONTROL and key != self.figures.place(level, "attention"):
                    groups[self.figures.against_control(level, key)].append(self.figures.said(level, key))
            for found, told in (("same", "not distinguishable from"), ("worse", "worse than")):
                if groups[found]:
                    yield f"Warning: {told} a random order at {PLACES[level]}: {listed(groups[found])}."
        beaten = {key: self._get("beats_reference", key) for key in self.figures.keys(self.level)}
        told_of = [
            f"{self.figures.said(self.level, key)} on {share}" for key, share in beaten.items() if share.value > 0
        ]
        if told_of:
            yield (
                f"Some rankings flip decisions with fewer {self.unit} than the smallest set that the search found, and "
                f"have an efficiency of 100 % there: {listed(told_of)} of the texts."
            )

    def _data(self) -> Iterator[str]:
        late = self._get("flipped_at_all", self.key)
        if late.value >= LATE:
            yield f"On {late} of the texts attention flips the decision only once all {self.unit} are removed."
        judged, short = self._never(self.level).texts, self._get("too_short").value
        yield from sample_sentence(self.facts, self.unit, f"{judged:,} texts were judged", short, "to remove")
        yield from accuracy_sentences(self.figures)
        yield (
            f"Shares of {self.unit} are means over texts; a text that never flips counts as 100 %. "
            f"{interval_note(self.facts)}"
        )


def sample_note(figures: SummaryLookup, facts: Mapping[str, Any], short: float) -> Iterator[str]:
    """The texts behind what other tests say, where nothing was erased; ``short`` of them have too few items."""
    unit = unit_at(facts["unit"], "attention" if facts["tail_is_affine"] else "input")
    if "texts" in facts:
        yield from sample_sentence(facts, unit, f"{facts['texts']:,} texts were looked at", short, "to rank")
        yield from accuracy_sentences(figures)
        yield interval_note(facts)


def accuracy_sentences(figures: SummaryLookup) -> Iterator[str]:
    """How often the model is right, where labels are there, and whether that is hardly better than chance."""
    accuracy, majority = (figures.get("", name) for name in ("accuracy", "majority_label"))
    if not accuracy.known:
        return
    yield f"The model is right on {accuracy} of the {accuracy.texts:,} texts with a label."
    if is_near_chance(accuracy, majority):
        yield (
            f"Warning: this model decides near chance. Always answering the most frequent label would be right on "
            f"{majority}, so an explanation of its decisions explains little of the task."
        )


def sample_sentence(facts: Mapping[str, Any], unit: str, opening: str, short: float, what: str) -> Iterator[str]:
    """How many texts there were, which were left out, and what is among their items."""
    parts = [opening]
    if short > 0:
        parts.append(f"{short:,.0f} had fewer than two {unit} {what}")
    aside = dict(facts.get("aside") or {})
    if aside:
        parts.append(f"set aside: {listed(f'{count:,} ({reason})' for reason, count in aside.items())}")
    if facts.get("truncated"):
        parts.append(f"{facts['truncated']:,} were cut off at the longest length the model reads")
    yield f"{'; '.join(parts)}."
    if facts["special_tokens"]:
        yield f"Special tokens such as [CLS] are among the {unit}."


def interval_note(facts: Mapping[str, Any]) -> str:
    """What stands in brackets."""
    return f"In brackets: {percent(facts['confidence_level'])} intervals over texts."


def capital(words: str) -> str:
    """A sentence's first word."""
    return words[:1].upper() + words[1:]
