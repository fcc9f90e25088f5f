"""The sentences of a verdict: the values that fill the template `verdict.txt.j2`.

The sentences themselves stand in the template. Here each name in it gets its value from the summary of a run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from attnfaith.attribution.display_names import display_name
from attnfaith.attribution.method import YOURS
from attnfaith.escaping import visible
from attnfaith.estimates.lookup import SummaryLookup, SummaryValue, percent, points, unit_at
from attnfaith.estimates.pivot import Key
from attnfaith.evaluation.rankings import enumerated
from attnfaith.evaluation.verdict_rule import (
    FAITHFUL,
    FEW,
    UNFAITHFUL,
    Judgement,
    Label,
    Reason,
    efficiency_of,
    is_near_chance,
    judge,
    sizes_known,
)
from attnfaith.parameter_names import parameter

SILENT = 0.25
"""If no set is found that flips this share of the decisions of a level, the verdict says so."""
LATE = 0.05
"""A larger share of texts that flip only with everything removed, or with fewer items than the search, is mentioned."""

PLACES = {"attention": "the final attention", "input": "the input level"}
WAYS = {
    "attention_mask": "hidden from every layer by the attention mask",
    "mask_token": "replaced by the mask token",
    "pad": "replaced by the padding token",
    "zero": "their embeddings replaced by zeros",
    "delete": "deleted from the text",
}

_NONE: Key = ("", "")
_NO_EVIDENCE = (Reason.NO_ATTENTION, Reason.FEW_TEXTS, Reason.NO_CONTROL, Reason.NO_ERASURE, Reason.NO_TEXTS)
_UNKNOWN = {"removed": SummaryValue(), "skill": SummaryValue(), "gap": "", "against_control": ""}


@cache
def template() -> Template:
    """The template with all sentences."""
    environment = Environment(  # plain text for a terminal: nothing to escape for HTML
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    environment.filters |= {"count": lambda number: f"{number:,.0f}", "capital": capital}
    environment.globals["parameter"] = parameter
    return environment.from_string(Path(__file__).with_name("verdict.txt.j2").read_text(encoding="utf-8"))


def sentences_of(block: str, values: Mapping[str, Any]) -> tuple[str, ...]:
    """Render one block of the template; each line is a sentence.

    Example:
        >>> sentences_of("rankings", {"alone": True, "left_out": "", "yours": [], "beat_search": []})
        ('No other ranking was run: run the default rankings to see which do better.',)
    """
    context = template().new_context(dict(values))
    lines = "".join(template().blocks[block](context)).splitlines()
    return tuple(line.strip() for line in lines if line.strip())


def verdict_sentences(
    figures: SummaryLookup, facts: Mapping[str, Any], judged: Mapping[str, Judgement], *, untold: bool
) -> dict[str, tuple[str, ...]]:
    """The sentences on attention (""), on "other rankings", and on the "texts".

    Args:
        figures: of the erasure test.
        facts: as `attnfaith.evaluation.verdict.verdict` takes them.
        judged: attention's judgement at each level; the first level is the one that the verdict is about.
        untold: whether other tests were run, on too few texts to describe.
    """
    level, *others = judged
    here = _values_at(figures, facts, level, judged[level])
    other = _values_at(figures, facts, others[0], judged[others[0]]) if others else None
    key = figures.key_of(level, "attention")
    too_short, late = (
        figures.get(level, name, at) for name, at in (("too_short", _NONE), ("flipped_only_at_end", key or _NONE))
    )
    shared = {**here, "other": other, "tolerance": facts.get("tolerance"), "hidden": _hidden(facts)}
    return {
        "": sentences_of("attention", shared),
        "other rankings": sentences_of("rankings", {**here, **_rivals(figures, facts, level, key, here)}),
        "texts": text_sentences(
            figures,
            facts,
            level=level,
            too_short=too_short.value,
            judged=here["judged"],
            late=late if here["evidence"] and late.value >= LATE else None,
            shares=not here["stuck"],
            untold=untold,
        ),
    }


def unjudged_sentences(reason: Reason) -> tuple[str, ...]:
    """The reason why a run without the erasure test has no verdict."""
    values = {"stuck": False, "evidence": False, "caution": False, "settled_by": None, "silent": False, "other": None}
    return sentences_of("attention", {**values, "reason": reason, "label": Label.UNDECIDED, "level": ""})


def text_sentences(
    figures: SummaryLookup,
    facts: Mapping[str, Any],
    *,
    level: str,
    too_short: float,
    reason: Reason | None = None,
    judged: int = 0,
    late: SummaryValue | None = None,
    shares: bool = False,
    untold: bool = False,
) -> tuple[str, ...]:
    """The sentences on the texts behind a verdict, or behind the other tests.

    Args:
        figures: of any test: all have the model's accuracy.
        facts: as `attnfaith.evaluation.verdict.verdict` takes them.
        level: which items are counted.
        too_short: the number of texts with fewer than two items; NaN where unknown.
        reason: why nothing was erased, if so.
        judged: the number of texts that were judged.
        late: the share of texts that attention flips only with everything removed, where it is worth a sentence.
        shares: whether shares removed are printed.
        untold: whether other tests were run, on too few texts to describe.
    """
    accuracy, majority = (figures.get("", name) for name in ("accuracy", "majority_label"))
    read = facts.get("texts", 0)
    values = {
        "part": facts.get("part"),
        "reason": reason,
        "read": read,
        "few_read": read < FEW,
        "judged": judged,
        "few": FEW,
        "sample": _sample(facts),
        "unit": unit_at(facts["unit"], level),
        "short": 0 if math.isnan(too_short) else int(too_short),
        "aside": {visible(str(why)): number for why, number in (facts.get("aside") or {}).items()},
        "truncated": facts.get("truncated", 0),
        "special_tokens": facts["special_tokens"],
        "late": late,
        "accuracy": accuracy,
        "right": round(accuracy.value * accuracy.texts) if accuracy.known else 0,
        "majority": percent(majority.value),
        "near_chance": accuracy.texts >= FEW and is_near_chance(accuracy, majority),
        "shares": shares,
        "untold": untold,
        "confidence": percent(facts["confidence_level"]),
    }
    return sentences_of("texts", values)


def _sample(facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the template says of a run that need not have read all texts; None for one that was to read all."""
    sample = facts.get("sample")
    if sample is None or (sample["precision"] is None and sample["max_texts"] is None):
        return None
    precision = sample["precision"]
    return {**sample, "points": None if precision is None else f"{100 * precision:g}"}


def is_stuck(figures: SummaryLookup, level: str, judgement: Judgement) -> bool:
    """Whether too few decisions can be flipped at a level to compare rankings there."""
    return judgement.reason == Reason.FEW_FLIPS and _kept(figures, level).value >= SILENT


def printed_estimates(figures: SummaryLookup, level: str, judgement: Judgement) -> list[SummaryValue]:
    """The estimates that the sentences on attention and on the rankings beside it print with an interval.

    A run with a precision reads texts until all of them have it. The accuracy and other facts on the texts are not
    among them, nor is the other level.

    Args:
        figures: of the erasure test.
        level: that the verdict is about.
        judgement: of attention.
    """
    key, control, flips = figures.key_of(level, "attention"), figures.control(level), figures.get(level, "flippable")
    if is_stuck(figures, level, judgement):
        return [flips]
    if key is None or control is None:
        return [figures.get(level, "mean_fraction", item) for item in figures.keys(level)]
    exact = sizes_known(figures, level)
    rivals = [item for item in figures.rivals(level, key) if item[0] != YOURS][:1]
    beside = [control, *rivals, *(item for item in figures.keys(level) if item[0] == YOURS)]
    return [
        *(figures.get(level, "mean_fraction", item) for item in (key, control)),
        *(figures.get(level, "mean_difference", key, item) for item in beside),
        *(figures.get(level, "skill", item) for item in figures.keys(level, "skill") if item == key),
        figures.get(level, "minimum_fraction_mean" if exact else "minimum_fraction_mean_high"),
        *([flips] if _kept(figures, level).value >= SILENT else []),
    ]


def capital(words: str) -> str:
    """Capitalise the first letter."""
    return words[:1].upper() + words[1:]


def _kept(figures: SummaryLookup, level: str) -> SummaryValue:
    """The share of texts for which no flipping set is known."""
    flips = figures.get(level, "flippable")
    return SummaryValue(1 - flips.value, 1 - flips.high, 1 - flips.low)


def _values_at(figures: SummaryLookup, facts: Mapping[str, Any], level: str, judgement: Judgement) -> dict[str, Any]:
    """The values on attention at one level, which must not depend on other rankings."""
    key, control, exact = figures.key_of(level, "attention"), figures.control(level), sizes_known(figures, level)
    kept, stuck, needed = _kept(figures, level), is_stuck(figures, level, judgement), judgement.needed
    attention: dict[str, Any] = dict(_UNKNOWN)
    if key is not None and control is not None:
        attention = {
            "removed": figures.get(level, "mean_fraction", key),
            "skill": figures.get(level, "skill", key),
            "gap": points(figures.get(level, "mean_difference", key, control)),
            "against_control": figures.against_control(level, key),
        }
    above_unfaithful = judgement.label in (Label.PARTLY, Label.PARTLY_OR_FAITHFUL, Label.FAITHFUL)
    return {
        "level": level,
        "place": PLACES[level].removeprefix("the "),
        "unit": unit_at(facts["unit"], level),
        "affine": facts["tail_is_affine"],
        "label": judgement.label,
        "reason": judgement.reason,
        "settled_by": "nothing" if needed is not None and math.isinf(needed) else needed,
        "caution": above_unfaithful and not exact,
        "judged": figures.get(level, "never_flipped", key or _NONE).texts,
        "flipped": efficiency_of(figures, level, key or _NONE).texts,
        "evidence": judgement.reason not in _NO_EVIDENCE and not stuck,
        "stuck": stuck,
        "silent": kept.value >= SILENT,
        "kept": kept,
        "exact": exact,
        "smallest": figures.get(level, "minimum_fraction_mean" if exact else "minimum_fraction_mean_high"),
        "attention": attention,
        "control": {"removed": figures.get(level, "mean_fraction", control or _NONE)},
        "few": FEW,
        "faithful": percent(FAITHFUL),
        "unfaithful": percent(UNFAITHFUL),
    }


def _rivals(
    figures: SummaryLookup, facts: Mapping[str, Any], level: str, key: Key | None, here: Mapping[str, Any]
) -> dict[str, Any]:
    """The best of the other rankings, those left out, those of the user, and those better than the search."""
    if not here["evidence"]:
        return {"alone": False, "best": None, "left_out": "", "yours": [], "beat_search": []}
    keys = figures.keys(level)
    left_out = [_key(name) for name in facts.get("left_out", {}).get(level, ())]
    shares = {item: figures.get(level, "beats_reference", item) for item in keys}
    rivals = figures.rivals(level, key or _NONE)
    best = _beside(figures, level, key, rivals[0]) if rivals and rivals[0][0] != YOURS else None
    if best is not None and best["standing"] == "better" and figures.against_control(level, rivals[0]) != "better":
        best["standing"] = "same"  # what may be no better than chance is nothing to recommend
    return {
        "alone": not rivals and here["label"] != Label.FAITHFUL,
        "left_out": enumerated([visible(display_name(item, [*keys, *left_out])) for item in left_out]),
        "best": best,  # None for a ranking of the user's, which has a sentence of its own
        "yours": [_beside(figures, level, key, item) for item in keys if item[0] == YOURS],
        "beat_search": [
            {"name": visible(figures.name_of(level, item)), "share": share}
            for item, share in shares.items()
            if share.value >= LATE
        ],
    }


_DESCRIBED = {
    Label.PARTLY: "partly faithful",
    Label.UNFAITHFUL_OR_PARTLY: "unfaithful or partly faithful",
    Label.PARTLY_OR_FAITHFUL: "partly or fully faithful",
}
"""Labels within a sentence, where the label alone would not be one."""


def _key(name: str) -> Key:
    """A ranking that is written as "level/name"."""
    level, _, last = name.partition("/")
    return level, last


def _beside(figures: SummaryLookup, level: str, attention: Key | None, key: Key) -> dict[str, Any]:
    """A ranking compared with attention: its name, its label, and the difference in the share removed."""
    gap = figures.get(level, "mean_difference", key, attention)
    if not gap.known:  # each pair is in the summary once, in either order
        gap = -figures.get(level, "mean_difference", attention or _NONE, key)
    return {
        "name": repr(key[1]) if key[0] == YOURS else visible(figures.name_of(level, key)),
        "label": (label := judge(figures, level, key).label),
        "described": _DESCRIBED.get(label, label),
        "gap": points(gap),
        "standing": "" if not gap.known else "better" if gap.high < 0 else "worse" if gap.low > 0 else "same",
    }


def _hidden(facts: Mapping[str, Any]) -> str:
    """How tokens are hidden at the input level; empty if unknown."""
    way = facts.get("hide")
    return "" if not way else WAYS.get(way, visible(str(way)))
