"""Write the report of a demo in Markdown, from the results of its runs."""

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
_NEVER_FLIPS = "A decision that never flips counts as everything removed."


def introduction(plan: Plan, seed: int) -> list[str]:
    """The introduction of the report: data, models, and test."""
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
    """The section on one model.

    Args:
        name: the name of its files.
        title: the title of the section.
        results: its run.
        examples: example texts, in Markdown.
        planted: the agreement with the planted words, if there are any.
    """
    figures = [f"![{_FIGURES[test]}](figures/{name}-{test}.png)" for test in results.tests]
    spread = [line for figure in figures for line in (figure, "")]
    lines = [f"## {title}", "", *about(results), "", *verdict_lines(results), ""]
    lines += ["### Rankings", "", *rankings_table(results, planted), ""]
    lines += [] if planted is None else ["### The words that decide", "", *truth_lines(results, planted), ""]
    lines += ["### Figures", "", *spread]
    return [*lines, *(["### Examples", "", *examples] if examples else [])]


def about(results: Results) -> list[str]:
    """A line with the number of texts, the accuracy of the model, and the notes of the run."""
    texts, counts = results.table("texts"), results.manifest["counts"]
    correct = texts["correct"].dropna()
    line = f"{counts['rows']:,} texts were read"
    line += f"; the model gets {percent(float(correct.mean()))} of them right." if len(correct) else "."
    notes = [f"{count} were set aside: {reason}." for reason, count in counts["aside"].items()]
    return [" ".join([line, *notes, *results.manifest["notes"]])]


def terminal_lines(name: str, results: Results, planted: pd.DataFrame) -> list[str]:
    """The main results of one model, in a few lines for a terminal."""
    right = percent(float(results.table("texts")["correct"].dropna().mean()))
    label, evidence, *_ = str(results.verdict).splitlines()
    share = dict(zip(planted["ranking"], planted["agreement"], strict=True))
    unit = results.manifest["facts"]["unit"]["attention"]
    compared = {RIVAL[1]: display_name(RIVAL), "by chance": "by chance"}
    other_shares = ", ".join(
        f"{words}: {percent(share[ranking])}" for ranking, words in compared.items() if ranking in share
    )
    return [
        f"{name}: right on {right} of {len(results.table('texts'))} held-out reviews. {label}",
        f"  {evidence}",
        f"  Of the {unit} that attention puts first, {percent(share[ATTENTION])} are decisive ({other_shares}).",
    ]


def next_steps(names: Sequence[str], *, user_model: bool) -> list[str]:
    """The files of the demo, and commands to continue with."""
    runs = [f'print(af.load_results("runs/{name}"))' for name in names]
    lines = ["## Going on", "", "Everything shown here is in this folder:", ""]
    lines += ["- `tables/`: every figure with its interval (`*-summary.csv`)"]
    lines[-1] += "." if user_model else ", and the agreement with the planted words (`*-planted.csv`)."
    lines += ["- `figures/`: the figures.", "- `runs/`: the results, text by text."]
    lines += [] if user_model else ["- `models/`: the models, for Transformers; `data/`: the held-out reviews."]
    lines += ["", "```python", "import attnfaith as af", "", *runs, "```", ""]
    if not user_model:
        lines += ["```", 'attnfaith explain models/flan "This kettle is not bad at all."']
        lines += ["attnfaith evaluate models/han data/reviews.jsonl --output another-run/", "```", ""]
    return lines


def verdict_lines(results: Results) -> list[str]:
    """The verdict: its label in bold, then its sentences."""
    label, *_ = str(results.verdict).splitlines()
    return [f"**{label}**", "", *(f"- {sentence}" for sentence in results.verdict.sentences)]


def rankings_table(results: Results, planted: pd.DataFrame | None = None) -> list[str]:
    """A table of the rankings for each erase level, sorted by the share removed until the decision flips.

    Args:
        results: the results of a run with the erasure test.
        planted: the agreement with the planted words, if there are any.
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
            figure_names = ["mean_fraction", *(["efficiency"] if exact else []), "never_flipped"]
            cells = [_name(key, level), *(_shown(figures.get(level, figure, key)) for figure in figure_names)]
            rows.append([*cells, _shown(agreed.get(key[1], SummaryValue()))] if agreed else cells)
        unit = results.manifest["facts"]["unit"][level]
        where = "the final attention" if level == "attention" else "the whole model"
        lines += [f"What is removed are {unit}, from {where}:", ""]
        lines += [*_markdown([*head, "agreement with the planted words"] if agreed else head, rows), ""]
    note = "*Removed* is the mean share of the items. " + _NEVER_FLIPS
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
    """The agreement of attention with the planted words, and how soon the decision flips without these."""
    figures, level = SummaryLookup(results.summary()), "attention"
    unit = results.manifest["facts"]["unit"][level]
    share = {row.ranking: percent(row.agreement, row.low, row.high) for row in planted.itertuples()}
    line = f"Of the {unit} that attention puts first, {share[ATTENTION]} are decisive; by chance it would be "
    lines = [f"- {line}{percent(dict(zip(planted['ranking'], planted['agreement'], strict=True))['by chance'])}."]
    planted_key, attention_key = PLANTED, (level, ATTENTION)
    planted_fraction, random = (figures.get(level, "mean_fraction", key) for key in (planted_key, (level, CONTROL)))
    lines.append(
        f"- With the decisive {unit} removed first, the decision flips after {planted_fraction} of all {unit}; at "
        f"random {random}."
    )
    gap = figures.get(level, "mean_difference", planted_key, attention_key)
    if gap.low > 0:
        lines.append(
            f"- That is later than by attention ({figures.get(level, 'mean_fraction', attention_key)}). The attention "
            f"does not weigh the {unit} themselves, but states of a recurrent network, which also hold what was read "
            "around them: what is taken away here can still be in its neighbours. The test says what the decision "
            "rests on behind the encoder; it does not say which words of the text that comes from."
        )
    return lines


def with_bold_words(review: Review) -> str:
    """A review with its decisive words in bold.

    Example:
        >>> with_bold_words(
        ...     {"text": "It is not bad.", "label": 3, "words": ["not", "bad"], "ranges": [(6, 9), (10, 13)]}
        ... )
        'It is **not** **bad**.'
    """
    text, end, markdown = review["text"], 0, ""
    for start, stop in review["ranges"]:
        markdown += f"{escape_markdown(text[end:start])}**{text[start:stop]}**"
        end = stop
    return markdown + escape_markdown(text[end:])


def escape_markdown(text: str) -> str:
    r"""Escape the signs of Markdown in a text, and replace line breaks by spaces.

    Example:
        >>> print(escape_markdown("2 * 3\n_"))
        2 \* 3 \_
    """
    escaped = "".join("\\" + sign if sign in "\\`*_{}[]<>#|~" else sign for sign in visible(text, "\n\t"))
    return re.sub(r"\s+", " ", escaped)


def example(
    explained: Mapping[str, Explanation], removed: Mapping[str, int | None], *, first: int, text: str, prediction: str
) -> list[str]:
    """One text with the top items of rankings.

    Args:
        explained: the explanations of the text by ranking.
        removed: the number of items that each ranking removes until the decision flips; None if it never flips.
        first: the number of items to show.
        text: the text in Markdown.
        prediction: a sentence on the prediction of the model.
    """
    total = len(next(iter(explained.values())).scores)
    lines = [f"> {text}", "", prediction, ""]
    rows = []
    for name, explanation in explained.items():
        items = [_item(explanation, index) for index in explanation.ranking()[:first]]
        count = removed.get(name)
        flips = "never" if count is None else f"{count} of {total}"
        rows.append([display_name((explanation.level, name)), ", ".join(items), flips])
    head = ["ranking", f"its first {first}" if first > 1 else "its first", "removed until the decision flips"]
    return [*lines, *_markdown(head, rows), ""]


def _item(explanation: Explanation, index: int) -> str:
    score = explanation.scores[index]
    weight = f" ({percent(score)})" if explanation.method == ATTENTION else ""
    return f"“{escape_markdown(explanation.tokens[index].strip())}”{weight}"


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    numeric = [all(re.match(r"[\d–]", cells[column]) for cells in rows) for column in range(len(head))]
    rule = ["---:" if right else "---" for right in numeric]
    return ["| " + " | ".join(cells) + " |" for cells in (head, rule, *rows)]


def _shown(figure: SummaryValue) -> str:
    return str(figure) if figure.known else "–"


def _name(key: Key, level: str) -> str:
    words = escape_markdown(display_name(key)) + (" (the decisive words first)" if key == PLANTED else "")
    return words if key[0] in (level, YOURS) else f"{words}, {key[0]} level"


def _order(value: float) -> float:
    return math.inf if math.isnan(value) else value
