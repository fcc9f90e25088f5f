"""Summaries made by hand: the figures of one level, or of two, each of which may be changed."""

import math

import pandas as pd

from attnfaith.evaluation.verdict import verdict

NAN, INF = math.nan, math.inf
ATTENTION, CONTROL, PRODUCT = ("attention", "attention"), ("attention", "random"), ("attention", "gradient_x_attention")
OTHERS = (PRODUCT, ("attention", "gradient"), ("attention", "lrp"))
FACTS = {
    "unit": "words",
    "special_tokens": False,
    "tail_is_affine": True,
    "texts": 500,
    "aside": {},
    "truncated": 0,
    "levels": ["attention"],
    "model": "a model",
    "hide": "attention_mask",
    "confidence_level": 0.95,
}
OWN = {
    "never_flipped": (0.1, 0.08, 0.12),
    "flipped_only_at_end": (0.01, 0.0, 0.02),
    "mean_fraction": (0.41, 0.38, 0.44),
    "efficiency": (0.3, 0.28, 0.32),
    "skill": (0.2, 0.16, 0.24),
}
CHANCE = {
    "mean_fraction": (0.6, 0.55, 0.64),
    "efficiency": (0.12, 0.1, 0.14),
}
BEST = {"mean_fraction": (0.1, 0.08, 0.12)}
OVERALL = {
    "minimum_fraction_mean": (0.06, 0.05, 0.07),
    "flippable": (0.97, 0.95, 0.98),
    "certified": (1.0, 0.99, 1.0),
    "too_short": (0.0, NAN, NAN),
}
BETTER = {
    "mean_difference": (-0.17, -0.2, -0.14),
    "p_holm": (0.001, NAN, NAN),
    "wins": (0.7, 0.6, 0.8),
    "losses": (0.2, 0.1, 0.3),
}
WORSE = {
    "mean_difference": (0.35, 0.3, 0.4),
    "p_holm": (0.001, NAN, NAN),
    "wins": (0.1, 0.0, 0.2),
    "losses": (0.8, 0.7, 0.9),
}


def level(
    name="attention",
    *,
    keys=(ATTENTION, CONTROL, *OTHERS),
    texts=500,
    flipped=None,
    exact=True,
    certified=None,
    **changed,
):
    """The figures of one level, in which attention does as in the example of the issue.

    A figure is changed by its name: of attention; "random_" of the control; "best_" of gradient x attention; "level_"
    of the level; "gap_" of attention with the control; "rival_" of attention with gradient x attention. ``flipped`` is
    the number of texts that some set flips.
    """
    groups = {
        "own": dict(OWN),
        "random": OWN | CHANCE,
        "best": OWN | BEST,
        "level": dict(OVERALL),
        "gap": dict(BETTER),
        "rival": dict(WORSE),
    }
    for figure, value in changed.items():
        group, _, rest = figure.partition("_")
        group, rest = (group, rest) if group in groups else ("own", figure)
        groups[group][rest] = value
    if not exact:
        for part in ("own", "random", "best"):
            groups[part] |= {"efficiency_high": groups[part]["efficiency"], "efficiency": (NAN, NAN, NAN)}
        mean = groups["level"]["minimum_fraction_mean"]
        groups["level"] |= {"minimum_fraction_mean_high": mean, "minimum_fraction_mean": (NAN, NAN, NAN)}
        groups["level"]["certified"] = certified or (0.3, 0.2, 0.4)
    rows = []

    def add(key, figures, other=""):
        about = {"erase_level": name, "ranking_level": key[0], "ranking": key[1], "other": other}
        for figure, (value, low, high) in figures.items():
            count = flipped if flipped and figure in ("efficiency", "efficiency_high", "skill") else texts
            rows.append(about | {"figure": figure, "value": value, "low": low, "high": high, "texts": count})

    add(("", ""), groups["level"])
    for key in keys:
        add(key, groups[{ATTENTION: "own", CONTROL: "random"}.get(key, "best")])
        if key != CONTROL:
            add(key, groups["gap"] if key == ATTENTION else BETTER, "attention/random")
    add(ATTENTION, groups["rival"], "attention/gradient_x_attention")
    table = pd.DataFrame(rows).assign(test="erasure", slice="all", note="")
    return table[(table.figure != "skill") | (table.ranking != "random")]


def two(**changed):
    """A Transformer as measured on SST: at the final attention little flips, whatever is removed."""
    silent = {"never_flipped": (0.62, 0.54, 0.7), "mean_fraction": (0.8, 0.7, 0.9), "exact": False}
    silent |= {"level_flippable": (0.51, 0.43, 0.59)}
    return pd.concat([level("attention", **(silent | changed)), level("input", exact=False)])


def silent():
    """The final attention of that Transformer alone."""
    return two().query("erase_level == 'attention'")


def of_users(gap, *, skill):
    """The figures of one level with a user's ranking "people"; ``gap`` is its mean difference from attention."""
    table = level(keys=(ATTENTION, CONTROL, PRODUCT, ("yours", "people")))
    people = table.ranking == "people"
    table = table[~(people & (table.figure == "p_holm"))]
    table.loc[people & (table.figure == "skill"), ["value", "low", "high"]] = skill
    if gap is None:
        return table
    row = table.query("ranking == 'people' and figure == 'mean_difference'")
    value, low, high = gap
    return pd.concat([table, row.assign(other="attention/attention", value=value, low=low, high=high)])


def with_accuracy(table, accuracy, majority, *, labelled=200, test="erasure"):
    """The table with rows that say how often the model is right."""
    row = {"test": test, "erase_level": "", "ranking_level": "", "ranking": "", "other": "", "slice": "all"}
    row |= {"texts": labelled, "note": "", "low": NAN, "high": NAN}
    ends = {"low": accuracy - 0.07, "high": accuracy + 0.07}
    rows = [
        row | {"figure": "accuracy", "value": accuracy} | ends,
        row | {"figure": "majority_label", "value": majority},
    ]
    return pd.concat([table, pd.DataFrame(rows)])


def judged(table, **facts):
    return verdict(table, FACTS | facts)


def says(result, words):
    """Whether some sentence holds these words."""
    return any(words in sentence for sentence in result.sentences)
