"""What a verdict says: whole texts as they are printed, and which sentence is there when."""

from pathlib import Path

import pandas as pd
import pytest
from jinja2 import UndefinedError

from attnfaith.estimates.lookup import listed, percent
from attnfaith.evaluation.verdict import RANKINGS
from attnfaith.evaluation.verdict_rule import Label, Reason
from attnfaith.evaluation.verdict_text import sentences_of, template, unjudged_sentences
from tests.helpers.handmade_summaries import (
    ATTENTION,
    CONTROL,
    INF,
    NAN,
    PRODUCT,
    judged,
    level,
    of_users,
    says,
    silent,
    two,
    with_accuracy,
)

TRANSFORMER = {"tail_is_affine": False, "unit": "tokens", "special_tokens": True}
STUCK = {"flipped": 3, "level_flippable": (0.02, 0.01, 0.04), "never_flipped": (0.98, 0.96, 0.99)}
TEXTS = {
    "flan": lambda: judged(with_accuracy(level(), 0.9, 0.5)),
    "transformer": lambda: judged(two(skill=(0.6, 0.3, 0.9)), **TRANSFORMER),
    "final_attention_of_a_transformer": lambda: judged(silent(), **TRANSFORMER),
    "nothing_flips": lambda: judged(
        level(**STUCK | {"level_flippable": (0.0, 0.0, 0.01), "never_flipped": (1.0, 0.99, 1.0)})
    ),
    "nothing_flips_at_the_final_attention": lambda: judged(level(exact=False, **STUCK), **TRANSFORMER),
    "faithful_by_a_search": lambda: judged(level("input", exact=False, skill=(0.9, 0.85, 0.95)), **TRANSFORMER),
    "undecided": lambda: judged(level(texts=60, skill=(0.6, 0.3, 0.9)), aside={"the text is empty": 2}, truncated=1),
    "few_texts": lambda: judged(level(texts=3), texts=3),
    "users_ranking": lambda: judged(of_users((-0.31, -0.34, -0.28), skill=(0.9, 0.85, 0.95))),
    "regression": lambda: judged(level(skill=(0.6, 0.55, 0.7)), tolerance=0.5),
}
"""One line that differs in a file here is a change of what users read: look at the whole text, then at the file."""


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_printed(name):
    expected = (Path(__file__).parent / "verdict_texts" / f"{name}.txt").read_text(encoding="utf-8")
    assert f"{TEXTS[name]()}\n" == expected


LEFT_OUT = {"left_out": {"input": ["input/occlusion", "input/gradient_x_attention"], "attention": []}}


def test_the_best_ranking_is_the_best_that_was_run():
    """What the default left out is said where another ranking is judged, at the level that the verdict is about."""
    options = TRANSFORMER | LEFT_OUT
    better = judged(level("input", exact=False), **options)
    names = "occlusion and gradient x attention (input level)"
    assert says(better, f"It is the best of the rankings that were run, which leave out {names}:")
    worse = judged(level("input", exact=False, rival_mean_difference=(-0.3, -0.4, -0.2)), **options)
    assert not says(worse, "It is the best")
    assert says(worse, f"The rankings that were run leave out {names}:")
    for table, facts in (
        (level("input", exact=False), TRANSFORMER),
        (level(), options | {"tail_is_affine": True}),
        (silent(), options),
    ):
        assert not says(judged(table, **facts), "leave out")


def test_every_reason_and_label_has_a_sentence():
    for reason in Reason:
        shown = unjudged_sentences(reason) if reason in ("no erasure", "no texts") else reason_sentences(reason)
        assert len(shown) == 1, reason
    conclusions = {conclusion(label) for label in Label if label != "undecided"}
    assert len(conclusions) == len(Label) - 1


def reason_sentences(reason):
    values = {"stuck": False, "evidence": False, "caution": False, "settled_by": None, "silent": False, "other": None}
    values |= {"few": 20, "judged": 5, "flipped": 5, "unit": "words", "faithful": "80 %", "unfaithful": "50 %"}
    return sentences_of("attention", values | {"reason": reason, "label": Label.UNDECIDED, "level": "input"})


def conclusion(label):
    skill = {
        "unfaithful": (0.2, 0.1, 0.3),
        "unfaithful or partly": (0.4, 0.3, 0.6),
        "partly": (0.6, 0.55, 0.7),
        "partly or faithful": (0.75, 0.6, 0.9),
        "faithful": (0.9, 0.85, 0.95),
    }[label]
    result = judged(level(skill=skill))
    assert result.label == label
    return result.parts[""][3]


def test_a_value_that_the_template_lacks_is_an_error():
    with pytest.raises(UndefinedError, match="'stuck' is undefined"):
        sentences_of("attention", {})
    assert set(template().blocks) == {"attention", "rankings", "texts"}


# attention


def test_attention_and_the_random_order():
    sentences = {
        name: judged(level(gap_mean_difference=gap, skill=(-0.2, -0.3, -0.1))).parts[""][0]
        for name, gap in {"less": (0.1, 0.05, 0.2), "more": (-0.17, -0.2, -0.14), "clearly": (0, -0.1, 0.1)}.items()
    }
    for name, sentence in sentences.items():
        assert [word for word in sentences if word in sentence] == [name]
    for p_holm in (0.9, NAN):  # it is one planned test: other rankings, and so corrections, play no part in it
        assert judged(level(gap_p_holm=(p_holm, NAN, NAN))) == judged(level())


def test_the_smallest_sets_of_a_search_are_called_found_and_good_labels_come_with_a_caution():
    caution = "Smaller sets than the search found may exist"
    result = judged(level(exact=False, skill=(0.9, 0.85, 0.95)))
    assert says(result, "The smallest sets found that flip it hold 6.0 % [5.0, 7.0] of the words.")
    assert says(result, caution)
    assert not says(judged(level(skill=(0.9, 0.85, 0.95))), caution)
    assert not says(judged(level(exact=False)), caution)  # "unfaithful" is safe to say


def test_a_smallest_set_of_which_nothing_is_known_is_not_mentioned():
    result = judged(level(level_minimum_fraction_mean=(NAN, NAN, NAN)))
    assert not says(result, "The smallest sets")
    assert result.rankings.rows[0][0] == "gradient x attention"


@pytest.mark.parametrize(
    ("hide", "words"),
    [
        ("attention_mask", "hidden from every layer by the attention mask"),
        ("mask_token", "replaced by the mask token"),
        ("pad", "replaced by the padding token"),
        ("zero", "their embeddings replaced by zeros"),
        ("delete", "deleted from the text"),
        ("blurred, all of them", "(blurred, all of them)"),
        (None, "from the input;"),
    ],
)
def test_the_verdict_says_how_tokens_are_hidden(hide, words):
    assert says(judged(level("input"), tail_is_affine=False, hide=hide), words)


def test_units_may_differ_by_level():
    tables = pd.concat([level("attention"), level("input")])
    units = {"attention": "sentences", "input": "words"}
    assert judged(tables, unit=units).rankings.columns[2] == "sentences removed"
    assert judged(tables, unit=units, tail_is_affine=False).rankings.columns[2] == "words removed"
    assert says(judged(level(), unit={"attention": "pooled"}), "Removing pooled items")


# levels


def test_which_level_is_judged():
    both = pd.concat([level("attention"), level("input", skill=(0.9, 0.85, 0.95))])
    assert judged(both).level == "attention"  # a model with nothing past its attention
    assert says(judged(both), "At the input level alone the label would be faithful.")
    assert judged(both, tail_is_affine=False).level == "input"
    assert says(judged(both, tail_is_affine=False), "At the final attention alone the label would be unfaithful.")
    assert says(judged(pd.concat([level("attention"), level("input")])), "the label would be the same")
    assert judged(level("input"), tail_is_affine=True).level == "input"
    assert not says(judged(level("attention")), "alone the label")


def test_attention_of_the_input_level_is_read_where_there_is_no_other():
    table = level("input", keys=(ATTENTION, CONTROL, PRODUCT))
    table.loc[table.ranking == "attention", "ranking_level"] = "input"
    assert judged(table, tail_is_affine=False).label == "unfaithful"


def test_why_little_flips_is_stated_once():
    for result in (judged(two(), **TRANSFORMER), judged(silent(), **TRANSFORMER), TEXTS["nothing_flips"]()):
        text = str(result)
        assert sum(text.count(words) for words in ("no set found", "no set of")) == 1
    model = judged(level(level_flippable=(0.5, 0.4, 0.6)))
    assert says(model, "no set flips the decision")
    assert not says(model, "residual")


# the other rankings


def test_the_best_of_the_others_is_chosen_by_the_mean_share_removed():
    better = judged(level(rival_mean_difference=(0.3, 0.2, 0.4)))
    assert says(better, "Gradient x attention does better")
    assert says(judged(level(rival_mean_difference=(0.0, -0.1, 0.1))), "No other ranking that was run is clearly")
    assert says(judged(level(rival_mean_difference=(-0.3, -0.4, -0.2))), "No other ranking that was run does as well")
    assert says(judged(level(keys=(ATTENTION, CONTROL))), "No other ranking was run")
    assert not judged(level(keys=(ATTENTION, CONTROL), skill=(0.9, 0.85, 0.95))).parts[RANKINGS]
    table = level(rival_mean_difference=(0.3, 0.2, 0.4))
    table.loc[table.other.eq("attention/random") & (table.figure == "p_holm"), "value"] = 0.9
    assert says(judged(table), "No other ranking that was run is clearly")  # nor, surely, than a random order
    table = level()
    gradient = (table.ranking == "gradient") & (table.figure == "mean_fraction")
    table.loc[gradient, ["value", "low", "high"]] = (0.05, 0.04, 0.06)  # better, whatever its other figures
    order = [row[0] for row in judged(table).rankings.rows]
    assert order == ["smallest sets", "gradient", "gradient x attention", "LRP", "attention", "random order"]


def test_a_user_ranking_that_is_the_best_has_one_sentence():
    table = of_users((-0.31, -0.34, -0.28), skill=(0.9, 0.85, 0.95))
    of_people = (table.ranking == "people") & (table.figure == "mean_fraction")
    table.loc[of_people, ["value", "low", "high"]] = (0.05, 0.04, 0.06)
    assert len(judged(table).parts[RANKINGS]) == 1


def against_random(table):
    """The column of the comparison with the random order, by ranking."""
    shown = judged(table).rankings
    index = shown.columns.index("vs. random")
    return {row[0]: row[index] for row in shown.rows if row[index]}


def test_other_rankings_need_a_corrected_test_too():
    assert set(against_random(level()).values()) == {"better"}
    table = level()
    gradient = (table.ranking == "gradient") & (table.other == "attention/random")
    for figure, column, value in (("mean_difference", "high", 0.1), ("p_holm", "value", 0.2), ("wins", "value", 0.1)):
        changed = table.copy()
        changed.loc[gradient & (table.figure == figure), column] = value
        assert against_random(changed)["gradient"] == "unclear"
    worse = table.copy()
    for figure, values in {"mean_difference": (0.1, 0.05, 0.2), "wins": (0.1, 0.0, 0.2)}.items():
        worse.loc[gradient & (table.figure == figure), ["value", "low", "high"]] = values
    assert against_random(worse)["gradient"] == "worse"


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        ((-0.31, -0.34, -0.28), "31 points [28, 34] less than attention"),
        ((0.31, 0.28, 0.34), "31 points [28, 34] more than attention"),
        ((0.01, -0.03, 0.05), "no clear difference from attention"),
        (None, "Your ranking 'people' is faithful."),
    ],
)
def test_a_user_ranking_has_a_label_and_is_compared_with_attention(gap, words):
    result = judged(of_users(gap, skill=(0.9, 0.85, 0.95)))
    assert says(result, "Your ranking 'people' is faithful")
    assert says(result, words)
    assert ("people", "yours") in [row[:2] for row in result.rankings.rows]
    assert judged(level()).parts[""] == result.parts[""]


def test_rankings_that_beat_the_search_are_named_where_that_is_often():
    table = level(exact=False)
    row = table[(table.ranking == "lrp") & (table.figure == "never_flipped")].assign(figure="beats_reference")
    assert says(judged(pd.concat([table, row.assign(value=0.12, low=0.1, high=0.14)])), "LRP flips 12 % [10, 14]")
    assert not says(judged(pd.concat([table, row.assign(value=0.02)])), "than the search")


def test_two_rankings_of_one_name_are_distinguished():
    keys = (ATTENTION, CONTROL, PRODUCT, ("input", "gradient_x_attention"))
    result = judged(level(keys=keys))
    assert says(result, "Gradient x attention (attention level) does better")
    assert [row[1] for row in result.rankings.rows if row[0] == "gradient x attention"] == ["attention", "input"]


def test_the_table_has_the_cost_of_registered_rankings_and_leaves_the_optimum_to_the_smallest_sets():
    keys = (ATTENTION, CONTROL, ("attention", "optimal"), ("attention", "greedy"), ("attention", "of_my_own"))
    result = judged(level(keys=keys)).rankings
    costs = {row[0]: row[-1] for row in result.rows}
    assert costs["attention"] == "none"
    assert costs["of my own"] == costs["smallest sets"] == ""
    assert "greedy order" in costs
    assert "optimal order" not in costs
    assert "optimal order" in [row[0] for row in judged(level(keys=keys, exact=False)).rankings.rows]


def test_a_table_fits_a_terminal_without_breaking_a_number():
    table = judged(level()).rankings
    head, *rows = str(table).splitlines()
    assert table.fitted(len(max((head, *rows), key=len))) == ([head], rows)
    for width in (100, 80):
        heads, lines = table.fitted(width)
        assert max(map(len, (*heads, *lines))) <= width
        for row, line in zip(table.rows, lines, strict=True):
            assert all(cell in line for cell in row[:-1])
    assert table.fitted(10) == table.fitted(70)  # the narrowest there is


# the texts behind it


def test_excluded_texts_are_counted():
    facts = {"aside": {"empty": 3, "the logits are NaN": 1}, "truncated": 1200, "special_tokens": True}
    result = judged(level(level_too_short=(7.0, NAN, NAN), flipped_only_at_end=(0.12, 0.1, 0.14)), **facts).parts[
        "texts"
    ]
    assert result[:-1] == (
        "7 texts were not judged: they have fewer than two words.",
        "3 texts were set aside: empty.",
        "One text was set aside: the logits are NaN.",
        "1,200 texts were cut off at the longest length that the model reads.",
        "Special tokens such as [CLS] are among the words.",
        "On 12 % [10, 14] of the texts attention flips the decision only once all words are removed.",
    )
    assert len(judged(level()).parts["texts"]) == 1


def test_the_accuracy_is_stated_and_whether_it_is_near_chance():
    good = judged(with_accuracy(level(), 0.9, 0.5))
    assert "The model is right on 90 % [83, 97] of the 200 texts with a label." in good.parts["texts"]
    assert not says(good, "near chance")
    assert says(judged(with_accuracy(level(), 0.57, 0.5)), "near chance")
    assert says(judged(with_accuracy(level(), 0.91, 0.9)), "near chance")  # nine texts in ten have one label
    assert not says(judged(level()), "The model is right")
    assert says(judged(with_accuracy(level()[:0], 0.57, 0.5, test="agreement"), tail_is_affine=False), "near chance")
    few = judged(with_accuracy(level(texts=4), 0.5, 0.5, labelled=4), texts=4)
    assert says(few, "The model is right on 2 of the 4 texts with a label.")
    assert not says(few, "near chance")


SINGLE = {"test": "single_weight", "erase_level": "attention", "ranking_level": "attention", "ranking": "attention"}
SINGLE |= {"other": "", "slice": "all", "texts": 500, "note": ""}
CELLS = [
    SINGLE | {"figure": "only_top", "value": 0.08, "low": 0.06, "high": 0.1},
    SINGLE | {"figure": "only_drawn", "value": 0.01, "low": 0.005, "high": 0.02},
]


def test_other_tests_have_sentences_of_their_own_but_not_about_a_few_texts():
    table = pd.concat([level(), pd.DataFrame(CELLS)])
    (sentence,) = judged(table).parts["single_weight"]
    for share in ("8.0 % [6.0, 10.0]", "1.0 % [0.5, 2.0]"):
        assert share in sentence
    assert "\n\nSingle weight\n" in str(judged(table))
    assert "single_weight" not in judged(level()).parts
    few = judged(table, texts=3)
    assert "single_weight" not in few.parts
    assert says(few, "The other tests are not described")


def test_sentences_on_very_few_texts_are_sensible():
    for texts in (1, 2, 19):
        text = str(judged(with_accuracy(level(texts=texts), 1.0, 1.0, labelled=texts), texts=texts))
        assert "[" not in text
        assert " 100 % of" not in text


def test_no_skill_is_shown_of_very_few_flips():
    few, enough = (judged(level(flipped=count)) for count in (19, 20))
    assert (few.reason, enough.reason) == ("few flips", "")
    for result, shown in ((few, False), (enough, True)):
        assert says(result, "the skill of attention is") == shown
        assert (result.rankings.rows[1][3] != "") == shown
    assert says(few, "there are only 19")


def test_slices_are_not_read():
    table = pd.concat([level(), level(skill=(0.9, 0.85, 0.95)).assign(slice="class=1")])
    assert judged(table) == judged(level())


def test_no_sentence_holds_a_value_that_is_not_there():
    for table in (level(), level(exact=False), two(), level(keys=(ATTENTION, CONTROL)), level(skill=(NAN, NAN, NAN))):
        for facts in ({}, {"tail_is_affine": False}):
            result = judged(table, **facts)
            for trap in ("nan", "inf ", "None", "unknown share", "{", "}"):
                assert trap not in str(result)
            assert all(sentence[-1] in ".:" and "  " not in sentence for sentence in result.sentences)


# numbers in words


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((0.25, -0.002, 0.41), "25 % [0, 41]"),
        ((0.412, 0.38, 0.441), "41 % [38, 44]"),
        ((0.0631,), "6.3 %"),
        ((0.0995,), "10 %"),
        ((0.0994,), "9.9 %"),
        ((0.0,), "0 %"),
        ((1.0,), "100 %"),
        ((0.0001,), "under 0.1 %"),
        ((0.9996,), "over 99.9 %"),
        ((0.997,), "99.7 %"),
        ((0.97, 0.91, INF), "97 % [91, not reached]"),
        ((INF, INF, INF), "not reached"),
        ((NAN,), "an unknown share"),
        ((-0.2, -0.3, -0.1), "-20 % [-30, -10]"),
        ((0.0, 0.0, 0.007), "0 % [0, 1]"),
    ],
)
def test_percent(numbers, words):
    assert percent(*numbers) == words


def test_listed():
    assert listed(["a"]) == "a"
    assert listed(["a", "b"]) == "a and b"
    assert listed(iter("abc")) == "a, b and c"
