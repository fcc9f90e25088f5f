"""A verdict in sentences: the evidence, the conclusion, what it speaks of, warnings, and the texts behind it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from attnfaith.evaluation.summaries.erasure import CONTROL
from attnfaith.evaluation.summaries.grid import Key
from attnfaith.evaluation.summaries.judging import FAITHFUL, FEW, UNFAITHFUL, Judgement, exact, worth
from attnfaith.evaluation.summaries.reading import Figure, Reader, listed, percent, unit_at

SILENT = 0.25
"""Of a level at which every ranking leaves this share of the decisions as they are, it is said that it says little."""
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
    "wide": "The interval reaches from unfaithful to faithful: a verdict needs more texts.",
    "same": "Attention cannot be told from a random order on these texts: a verdict needs more of them.",
    "rivals": "The smallest sets are not known, and too few other rankings were run to find small ones: a verdict "
    "needs more rankings.",
}
CONCLUSIONS = {
    "unfaithful": "Do not read attention as an explanation of this model.",
    "partly": "Attention says something about what decides, but do not read it as an explanation by itself.",
    "faithful": "As far as this test goes, attention can be read as a ranking of what decides in this model.",
}
CAUTION = "The smallest sets here are the smallest found; if there are smaller ones, attention is worse than this says."


class Speaker:
    """Says what the figures of one run amount to.

    Args:
        figures: of the erasure test.
        facts: what the figures are about.
        judged: the label at each level; the first is the one that is spoken of.
    """

    def __init__(self, figures: Reader, facts: Mapping[str, Any], judged: Mapping[str, Judgement]) -> None:
        self.figures, self.facts, self.judged = figures, facts, judged
        self.level, *self.others = judged
        self.key: Key = figures.place(self.level, "attention") or ("", "")
        self.alpha = alpha_of(facts)
        self.unit = self.unit_at(self.level)

    def judgement(self) -> tuple[str, ...]:
        """The evidence, the conclusion, what it speaks of, and warnings."""
        own = self.judged[self.level]
        seen = own.reason not in ("no attention", "few texts", "no control")
        parts = [self._evidence() if seen else (), self._conclusion(own), self._levels(), self._warnings()]
        return tuple(sentence for part in parts for sentence in part)

    def texts(self) -> tuple[str, ...]:
        """The texts behind it."""
        return tuple(self._data())

    def unit_at(self, level: str) -> str:
        """What an item of a level is, in the plural."""
        return unit_at(self.facts["unit"], level)

    def _get(self, figure: str, key: Key = ("", ""), other: Key | None = None) -> Figure:
        return self.figures.get(self.level, figure, key, other)

    def _never(self, level: str) -> Figure:
        return self.figures.get(level, "never_flipped", self.figures.place(level, "attention") or ("", ""))

    def _evidence(self) -> Iterator[str]:
        yield self._opening()
        yield from self._rival()
        control = self.figures.control(self.level) or ("", "")
        against = self.figures.against_control(self.level, self.key, self.alpha)
        told = {"better": "is better than that", "worse": "is worse than that", "same": "cannot be told from that"}
        yield f"A random order {self._needs(control)}; attention {told[against]}."
        skill = self._get("skill", self.key)
        if skill.known:
            own, chance = (worth(self.figures, self.level, key) for key in (self.key, control))
            known, most = ("", "") if exact(self.figures, self.level) else (" known", "at most ")
            way = f"goes {skill} of the way" if skill.value > 0 else f"goes no part of the way ({skill})"
            yield (
                f"Of what attention removes, {most}{own} was needed; of what a random order removes, {most}{chance}. "
                f"On that scale attention {way} from a random order to the smallest sets{known}: {percent(FAITHFUL)} "
                f"or more would be faithful, less than {percent(UNFAITHFUL)} unfaithful."
            )

    def _opening(self) -> str:
        """How much attention removes, and how little would do."""
        settled = exact(self.figures, self.level)
        known = "" if settled else " known"
        median = self._get("median_fraction", self.key)
        smallest = self._get("minimum_fraction_median" if settled else "minimum_fraction_median_high")
        if math.isfinite(median.value):
            first = f"Attention flips the decision after removing {median} of the {self.unit}"
            second = f"the smallest set{known} that does is {smallest}"
        else:
            never = self._get("never_flipped", self.key)
            first = f"Attention never flips the decision on {never} of the texts, however many {self.unit} are removed"
            second = f"the smallest set{known} that flips it is {smallest} of the {self.unit}"
        if math.isinf(smallest.value):
            flips = "flips it" if settled else "is known to flip it"
            second = f"on more than half of the texts no set of {self.unit} {flips}"
        return f"{first}; {second}." if smallest.known else f"{first}."

    def _needs(self, key: Key) -> str:
        median = self._get("median_fraction", key)
        if math.isinf(median.value):
            return f"never flips it on {self._get('never_flipped', key)} of the texts"
        return f"needs {median}"

    def _rival(self) -> Iterator[str]:
        rivals = self.figures.rivals(self.level, self.key)
        if not rivals:
            return
        name, needs = self.figures.said(self.level, rivals[0]), self._needs(rivals[0])
        gap = self._get("mean_difference", self.key, rivals[0])
        if gap.low > 0:
            yield f"{capital(name)} {needs}."
        elif gap.high < 0:
            yield f"No other ranking that was run does as well; the next best, {name}, {needs}."
        else:
            yield f"No ranking that was run is clearly better; the best of the others, {name}, {needs}."

    def _conclusion(self, own: Judgement) -> Iterator[str]:
        yield REASONS[own.reason] if own.reason else CONCLUSIONS[own.label]
        if own.label in ("partly", "faithful") and not exact(self.figures, self.level):
            yield CAUTION

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
        if self.facts["kind"] == "affine":
            if self.others:
                yield "It is judged because in this model nothing goes past the final attention."
            return
        never = [self.figures.get("attention", "never_flipped", key) for key in self.figures.keys("attention")]
        least = min(never, key=lambda figure: figure.value, default=Figure())
        past = "what earlier layers found goes past the final attention"
        if self.level == "attention" and least.value >= SILENT:
            yield (
                f"Every ranking leaves at least {least} of the decisions as they are: {past}. Erasing at the input "
                "level (level='input') would say more."
            )
        elif self.others and least.value >= SILENT:
            yield (
                f"At the final attention every ranking leaves at least {least} of the decisions as they are, because "
                f"{past}: so the input level is judged."
            )
        elif self.others:
            yield "It is judged because there a token is gone from every layer, and not from the last one only."

    def _warnings(self) -> Iterator[str]:
        for level in self.judged:
            if self.figures.control(level) is None:
                continue
            groups: dict[str, list[str]] = {"same": [], "worse": [], "better": []}
            for key in self.figures.keys(level):
                if key[1] != CONTROL:
                    groups[self.figures.against_control(level, key, self.alpha)].append(self.figures.said(level, key))
            for found, told in (("same", "not to be told from"), ("worse", "worse than")):
                if groups[found]:
                    yield f"Warning: {told} a random order at {PLACES[level]}: {listed(groups[found])}."

    def _data(self) -> Iterator[str]:
        late = self._get("flipped_at_all", self.key)
        if late.value >= LATE:
            yield f"On {late} of the texts attention flips the decision only once all {self.unit} are removed."
        judged, short = self._never(self.level).texts, self._get("too_short").value
        yield from behind(self.facts, self.unit, f"{judged:,} texts were judged", short, "to remove")
        yield f"Shares of {self.unit} are medians over texts. {brackets(self.facts)}"


def unjudged(facts: Mapping[str, Any], short: float) -> Iterator[str]:
    """The texts behind what other tests say, where nothing was erased; ``short`` of them have too few items."""
    unit = unit_at(facts["unit"], "attention" if facts["kind"] == "affine" else "input")
    if "texts" in facts:
        yield from behind(facts, unit, f"{facts['texts']:,} texts were looked at", short, "to rank")
        yield brackets(facts)


def behind(facts: Mapping[str, Any], unit: str, opening: str, short: float, what: str) -> Iterator[str]:
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


def brackets(facts: Mapping[str, Any]) -> str:
    """What stands in brackets."""
    return f"In brackets: {percent(facts['confidence_level'])} intervals over texts."


def alpha_of(facts: Mapping[str, Any]) -> float:
    """The p values that count."""
    return 1 - float(facts["confidence_level"]) + 1e-9


def capital(words: str) -> str:
    """A sentence's first word."""
    return words[:1].upper() + words[1:]
