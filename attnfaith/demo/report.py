"""The report of a demo, in Markdown: pure functions of what was found."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import pandas as pd

from attnfaith.attribution.display_names import display_name
from attnfaith.attribution.explanation import Explanation
from attnfaith.attribution.method import ATTENTION, CONTROL, YOURS
from attnfaith.demo.corpus import Review
from attnfaith.demo.steps import Plan
from attnfaith.escaping import visible
from attnfaith.estimates.lookup import SummaryLookup, SummaryValue, percent
from attnfaith.estimates.pivot import Key
from attnfaith.evaluation.results import Results

PLANTED = (YOURS, "planted")
"""The ranking of a demo's own: the decisive words first, in the order of the text."""
RIVAL = ("attention", "gradient_x_attention")
"""The ranking that reports show beside attention."""
_FIGURES = {
    "erasure": "Decisions kept while items are removed, by ranking",
    "single_weight": "What single weights do to the decision",
}
_NEVER = "A decision that never flips counts as everything removed."


def introduction(plan: Plan, seed: int) -> list[str]:
    """What was done, in plain words."""
    return f"""# Can attention be read as an explanation? A demonstration

Attention weights look like an explanation: so much of the decision rests on this word. Whether it does can be tested.
Take away what a ranking calls most important, then the next, until the decision flips. A good ranking gets there fast.

**Data.** {plan.reviews:,} product reviews with one to five stars were generated (seed {seed}), so that it is known
which words decide. Every such word also stands in sentences that count for nothing: about another product, or someone
else's opinion. So a model has to read, and an explanation can be checked against the truth.

**Models.** Two classifiers were trained on {plan.train:,} of the reviews, with {plan.validation} to choose the epoch:
a FLAN, whose attention weighs words, and a HAN, whose attention weighs sentences.

**Test.** On {plan.held_out} other reviews, what each ranking puts first was removed from the attention until the
decision flipped. The rankings are attention itself, others from gradients, relevance and occlusion, the planted words,
an order drawn at random, and the smallest set that flips the decision at all, which is computed exactly.

""".splitlines()


def section(
    name: str, title: str, results: Results, examples: Sequence[str], planted: pd.DataFrame | None = None
) -> list[str]:
    """Everything that was found of one model.

    Args:
        name: of its files.
        title: of the section.
        results: its run.
        examples: texts, in Markdown.
        planted: the agreement with the planted words, where there are any.
    """
    figures = [f"![{_FIGURES[test]}](figures/{name}-{test}.png)" for test in results.tests]
    spread = [line for figure in figures for line in (figure, "")]
    lines = [f"## {title}", "", *about(results), "", *verdict_lines(results), ""]
    lines += ["### Rankings", "", *rankings_table(results, planted), ""]
    lines += [] if planted is None else ["### The words that decide", "", *truth_lines(results, planted), ""]
    lines += ["### Figures", "", *spread]
    return [*lines, *(["### Examples", "", *examples] if examples else [])]


def about(results: Results) -> list[str]:
    """How many texts were read, and how many the model gets right."""
    texts, counts = results.table("texts"), results.manifest["counts"]
    right = texts["correct"].dropna()
    told = f"{counts['rows']:,} texts were read"
    told += f"; the model gets {percent(float(right.mean()))} of them right." if len(right) else "."
    notes = [f"{count} were set aside: {reason}." for reason, count in counts["aside"].items()]
    return [" ".join([told, *notes, *results.manifest["notes"]])]


def told(spoken: str, results: Results, planted: pd.DataFrame) -> list[str]:
    """What was found of one model, in a few lines for a terminal."""
    right = percent(float(results.table("texts")["correct"].dropna().mean()))
    label, evidence, *_ = str(results.verdict).splitlines()
    share = dict(zip(planted["ranking"], planted["agreement"], strict=True))
    unit = results.manifest["facts"]["unit"]["attention"]
    compared = {RIVAL[1]: display_name(RIVAL), "by chance": "by chance"}
    others = ", ".join(f"{words}: {percent(share[name])}" for name, words in compared.items() if name in share)
    return [
        f"{spoken}: right on {right} of {len(results.table('texts'))} held-out reviews. {label}",
        f"  {evidence}",
        f"  Of the {unit} that attention puts first, {percent(share[ATTENTION])} are decisive ({others}).",
    ]


def how_to_go_on(names: Sequence[str], *, yours: bool) -> list[str]:
    """Where everything is, and what can be done with it."""
    runs = [f'print(af.load_results("runs/{name}"))' for name in names]
    lines = ["## Going on", "", "Everything shown here is in this folder:", ""]
    lines += ["- `tables/`: every figure with its interval (`*-summary.csv`)"]
    lines[-1] += "." if yours else ", and the agreement with the planted words (`*-planted.csv`)."
    lines += ["- `figures/`: the figures.", "- `runs/`: the results, text by text."]
    lines += [] if yours else ["- `models/`: the models, for Transformers; `data/`: the held-out reviews."]
    lines += ["", "```python", "import attnfaith as af", "", *runs, "```", ""]
    if not yours:
        lines += ["```", 'attnfaith explain models/flan "This kettle is not bad at all."']
        lines += ["attnfaith evaluate models/han data/reviews.jsonl --output another-run/", "```", ""]
    return lines


def verdict_lines(results: Results) -> list[str]:
    """The verdict: its label in bold, then its sentences."""
    label, *_ = str(results.verdict).splitlines()
    return [f"**{label}**", "", *(f"- {sentence}" for sentence in results.verdict.sentences)]


def rankings_table(results: Results, planted: pd.DataFrame | None = None) -> list[str]:
    """A table for each erase level: what each ranking removes until the decision flips, the least first.

    Args:
        results: of a run with the erasure test.
        planted: the agreement with the planted words, where there are any.
    """
    figures = SummaryLookup(results.summary())
    agreed = {} if planted is None else {row.ranking: SummaryValue(*row[2:]) for row in planted.itertuples()}
    lines = []
    for level in figures.levels:
        keys = sorted(figures.keys(level), key=lambda key: _order(figures.get(level, "mean_fraction", key).value))
        exact = any(figures.get(level, "efficiency", key).known for key in keys)
        head = ["ranking", "removed until the decision flips", *(["efficiency"] if exact else []), "never flips"]
        rows = []
        for key in keys:
            told = ["mean_fraction", *(["efficiency"] if exact else []), "never_flipped"]
            cells = [_name(key, level), *(_shown(figures.get(level, figure, key)) for figure in told)]
            rows.append([*cells, _shown(agreed.get(key[1], SummaryValue()))] if agreed else cells)
        unit = results.manifest["facts"]["unit"][level]
        where = "the final attention" if level == "attention" else "the whole model"
        lines += [f"What is removed are {unit}, from {where}:", ""]
        lines += [*_markdown([*head, "agreement with the planted words"] if agreed else head, rows), ""]
    note = "*Removed* is the mean share of the items. " + _NEVER
    if "efficiency" in " ".join(lines):
        note += " *Efficiency* is the size of the smallest set that flips / the number removed: 100 % is perfect."
    if agreed:
        chance = percent(agreed["by chance"].value)
        note += (
            " *Agreement*: of a ranking's first k items, the share that is decisive, k being the number of decisive "
            f"ones; over the {agreed['by chance'].texts} reviews that the model gets right and that hold both kinds of "
            f"items. By chance it is {chance}."
        )
    level_of = results.manifest["statistics"]["confidence_level"]
    return [*lines, f"{note} In brackets: {percent(level_of)} intervals."]


def truth_lines(results: Results, planted: pd.DataFrame) -> list[str]:
    """What the planted words say of attention, and how soon the decision flips without them."""
    figures, level = SummaryLookup(results.summary()), "attention"
    unit = results.manifest["facts"]["unit"][level]
    share = {row.ranking: percent(row.agreement, row.low, row.high) for row in planted.itertuples()}
    found = f"Of the {unit} that attention puts first, {share[ATTENTION]} are decisive; by chance it would be "
    lines = [f"- {found}{percent(dict(zip(planted['ranking'], planted['agreement'], strict=True))['by chance'])}."]
    first, other = PLANTED, (level, ATTENTION)
    own, random = (figures.get(level, "mean_fraction", key) for key in (first, (level, CONTROL)))
    lines.append(
        f"- With the decisive {unit} removed first, the decision flips after {own} of all {unit}; at random {random}."
    )
    gap = figures.get(level, "mean_difference", first, other)
    if gap.low > 0:
        lines.append(
            f"- That is later than by attention ({figures.get(level, 'mean_fraction', other)}). What the attention "
            f"weighs are not bare {unit} but states of a recurrent network, which also hold what was read around them: "
            "what is taken away here can still be in its neighbours. The test says what the decision "
            "rests on behind the encoder; it does not say which words of the text that comes from."
        )
    return lines


def marked(review: Review) -> str:
    """A review with its decisive words in bold.

    Example:
        >>> marked({"text": "It is not bad.", "label": 3, "words": ["not", "bad"], "ranges": [(6, 9), (10, 13)]})
        'It is **not** **bad**.'
    """
    text, end, found = review["text"], 0, ""
    for start, stop in review["ranges"]:
        found += f"{plain(text[end:start])}**{text[start:stop]}**"
        end = stop
    return found + plain(text[end:])


def plain(text: str) -> str:
    r"""A text as it is, whatever signs of Markdown stand in it, without line breaks.

    Example:
        >>> print(plain("2 * 3\n_"))
        2 \* 3 \_
    """
    escaped = "".join("\\" + sign if sign in "\\`*_{}[]<>#|~" else sign for sign in visible(text, "\n\t"))
    return re.sub(r"\s+", " ", escaped)


def example(
    explained: Mapping[str, Explanation], removed: Mapping[str, int | None], *, first: int, shown: str, said: str
) -> list[str]:
    """One text, and what rankings put first in it.

    Args:
        explained: the text's explanations by ranking.
        removed: how many items each removes until the decision flips; None where it never does.
        first: how many items to show.
        shown: the text in Markdown.
        said: what the model says of it.
    """
    one = next(iter(explained.values()))
    lines = [f"> {shown}", "", said, ""]
    rows = []
    for name, explanation in explained.items():
        items = [_item(explanation, place) for place in explanation.ranking()[:first]]
        count = removed.get(name)
        flips = "never" if count is None else f"{count} of {len(one.scores)}"
        rows.append([display_name((explanation.level, name)), ", ".join(items), flips])
    head = ["ranking", f"its first {first}" if first > 1 else "its first", "removed until the decision flips"]
    return [*lines, *_markdown(head, rows), ""]


def _item(explanation: Explanation, place: int) -> str:
    score = explanation.scores[place]
    weight = f" ({percent(score)})" if explanation.method == ATTENTION else ""
    return f"“{plain(explanation.tokens[place].strip())}”{weight}"


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---:" if all(re.match(r"[\d–]", cells[place]) for cells in rows) else "---" for place in range(len(head))]
    return ["| " + " | ".join(cells) + " |" for cells in (head, rule, *rows)]


def _shown(figure: SummaryValue) -> str:
    return str(figure) if figure.known else "–"


def _name(key: Key, level: str) -> str:
    words = plain(display_name(key)) + (" (the decisive words first)" if key == PLANTED else "")
    return words if key[0] in (level, YOURS) else f"{words}, {key[0]} level"


def _order(value: float) -> float:
    return math.inf if math.isnan(value) else value
