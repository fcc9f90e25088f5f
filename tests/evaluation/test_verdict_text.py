"""What a verdict says: medians not reached, bounds, rivals, levels, warnings, what was set aside; numbers in words."""

import pandas as pd
import pytest

from attnfaith.estimates.lookup import listed, percent
from tests.helpers.handmade_summaries import ATTENTION, CONTROL, INF, NAN, PRODUCT, judged, level, said, two

# words


def test_smallest_sets_that_are_not_known():
    found = judged(level(exact=False, skill=(0.9, 0.85, 0.95)))
    assert said(found, "; the smallest sets found that flip it hold 6.0 % [5.0, 7.0].")
    assert said(found, "is at most 30 % [28, 32] for attention and at most 12 % [10, 14] for a random order")
    assert said(found, "The smallest sets here are the smallest that a search found")
    assert not said(judged(level(skill=(0.9, 0.85, 0.95))), "a search found")
    assert not said(judged(level(exact=False)), "a search found")  # "unfaithful" is safe to say


def test_a_smallest_set_of_which_nothing_is_known_is_not_mentioned():
    found = judged(level(level_minimum_fraction_mean=(NAN, NAN, NAN)))
    assert found.sentences[0] == "Attention flips the decision after removing 41 % [38, 44] of the words on average."


def test_the_best_of_the_others_is_chosen_and_printed_by_the_mean_share_removed():
    better = judged(level(rival_mean_difference=(0.3, 0.2, 0.4)))
    assert better.parts["other rankings"][0] == (
        "Gradient x attention, the best of the other rankings that were run, removes 10 % [8, 12]."
    )
    same = judged(level(rival_mean_difference=(0.0, -0.1, 0.1)))
    assert said(same, "is clearly better; the best of them, gradient x attention, removes 10 %")
    worse = judged(level(rival_mean_difference=(-0.3, -0.4, -0.2)))
    assert said(worse, "removes as little; the next best, gradient x attention, removes 10 %")
    assert not judged(level(keys=(ATTENTION, CONTROL))).parts["other rankings"]
    table = level()
    gradient = (table.ranking == "gradient") & (table.figure == "mean_fraction")
    table.loc[gradient, ["value", "low", "high"]] = (0.05, 0.04, 0.06)  # better, whatever its other figures
    assert said(judged(table), "gradient, removes 5.0 % [4.0, 6.0]")


def test_the_comparison_of_attention_with_the_random_order_is_one_test_by_itself():
    assert said(judged(level()), "A random order removes 60 % [55, 64]: attention removes 17 points [14, 20] less")
    for p_holm in (0.9, NAN):  # other rankings, and so corrections, play no part in it
        assert said(judged(level(gap_p_holm=(p_holm, NAN, NAN))), "so it is better than a random order")
    same = judged(level(gap_mean_difference=(-0.1, -0.2, 0.1)))
    assert said(same, "A random order removes 60 % [55, 64]: attention is not distinguishable from a random order.")
    worse = judged(level(gap_mean_difference=(0.1, 0.05, 0.2), skill=(-0.2, -0.3, -0.1)))
    assert worse.label == "unfaithful"
    assert said(worse, "attention removes 10 points [5, 20] more, so it is worse than a random order.")


def test_other_rankings_need_a_corrected_test_too():
    table = level()
    gradient = (table.ranking == "gradient") & (table.other == "attention/random")
    for figure, column, value in (("mean_difference", "high", 0.1), ("p_holm", "value", 0.2), ("wins", "value", 0.1)):
        changed = table.copy()
        changed.loc[gradient & (table.figure == figure), column] = value
        assert judged(changed).parts["other rankings"][1:] == (
            "Warning: not distinguishable from a random order at the final attention: gradient.",
        )
    assert not said(judged(level()), "Warning")
    worse = table.copy()
    for figure, values in {"mean_difference": (0.1, 0.05, 0.2), "wins": (0.1, 0.0, 0.2)}.items():
        worse.loc[gradient & (table.figure == figure), ["value", "low", "high"]] = values
    assert said(judged(worse), "Warning: worse than a random order at the final attention: gradient.")


def compared(table, values):
    """The table, with another mean difference of the ranking of the user's own and attention."""
    row = table[(table.ranking == "people") & (table.figure == "mean_difference")]
    value, low, high = values
    return pd.concat([table, row.assign(other="attention/attention", value=value, low=low, high=high)])


def test_a_ranking_of_the_users_own_has_a_sentence_and_a_label():
    mine = ("yours", "people")
    table = level(keys=(ATTENTION, CONTROL, PRODUCT, mine))
    table = table[~((table.ranking == "people") & (table.figure == "p_holm"))]
    skill = (table.ranking == "people") & (table.figure == "skill")
    table.loc[skill, ["value", "low", "high"]] = (0.9, 0.85, 0.95)
    found = judged(compared(table, (-0.31, -0.34, -0.28)))
    assert said(
        found,
        "Your ranking 'people': faithful. It removes 10 % [8, 12], 31 points [28, 34] less than attention. Its skill "
        "is 90 % [85, 95].",
    )
    found = judged(compared(table, (0.31, 0.28, 0.34)))
    assert said(found, "31 points [28, 34] more than attention")
    found = judged(compared(table, (0.01, -0.03, 0.05)))
    assert said(found, "with no clear difference from attention")
    assert judged(level()).parts[""] == found.parts[""]


def test_rankings_that_beat_the_search_are_named():
    table = level(exact=False)
    row = table[(table.ranking == "lrp") & (table.figure == "never_flipped")].assign(figure="beats_reference")
    found = judged(pd.concat([table, row.assign(value=0.02, low=0.01, high=0.04)]))
    assert said(found, "have an efficiency of 100 % there: LRP on 2.0 % [1.0, 4.0] of the texts.")
    assert not said(judged(pd.concat([table, row.assign(value=0.0)])), "that the search found")


# levels


def test_a_transformer_is_judged_by_its_input_and_told_why():
    found = judged(two(skill=(0.6, 0.3, 0.9)), tail_is_affine=False, unit="tokens", special_tokens=True)
    assert (found.label, found.level) == ("unfaithful", "input")
    assert said(found, "This speaks of the input level: tokens are taken away from the whole model (hidden from")
    assert said(found, "on 10 % [8, 12] of the texts at the input level and on 62 % [54, 70] of the texts at the final")
    assert said(
        found, "no set of items was found that flips 49 % [41, 57] of the decisions, so the input level is judged"
    )
    assert said(found, "The two levels differ: judged at the final attention alone, the verdict would be undecided.")
    assert said(found, "Special tokens such as [CLS] are among the tokens.")


def test_levels_that_agree_in_the_label_may_differ_in_what_flips():
    found = judged(two(), tail_is_affine=False)
    assert said(
        found, "The two levels differ in how much flips; judged at the final attention alone, the verdict is the same"
    )
    alike = pd.concat([level("attention"), level("input")])
    found = judged(alike, tail_is_affine=False)
    assert said(found, "Judged at the final attention alone, the verdict is the same.")
    assert said(found, "It is judged because there a token is gone from every layer")


def test_a_model_with_nothing_past_its_attention_is_judged_there():
    found = judged(pd.concat([level("attention"), level("input", skill=(0.9, 0.85, 0.95))]))
    assert found.level == "attention"
    assert said(found, "this model decides from its final attention alone")
    assert said(found, "The two levels differ: judged at the input level alone, the verdict would be faithful.")


def test_one_level_only():
    found = judged(level("attention"))
    assert said(found, "This speaks of the final attention: the weights of words are set to 0 there, and nowhere else.")
    assert not said(found, "It is judged because")
    assert not said(found, "two levels")
    silent = judged(two()[lambda table: table.erase_level == "attention"], tail_is_affine=False)
    assert silent.level == "attention"
    assert said(silent, "Erasing at the input level (level='input') would say more.")
    assert judged(level("input"), tail_is_affine=True).level == "input"
    assert not said(judged(level("input"), tail_is_affine=False), "It is judged because")


@pytest.mark.parametrize(
    ("hide", "words"),
    [
        ("attention_mask", "hidden from every layer by the attention mask"),
        ("mask_token", "replaced by the mask token"),
        ("pad", "replaced by the padding token"),
        ("zero", "their word vectors replaced by zeros"),
        ("delete", "deleted from the text"),
        ("blurred, all of them", "(blurred, all of them)"),
        (None, "words are taken away from the whole model."),
    ],
)
def test_how_tokens_are_hidden_is_said(hide, words):
    assert said(judged(level("input"), tail_is_affine=False, hide=hide), words)


def test_units_may_differ_by_level():
    tables = pd.concat([level("attention"), level("input")])
    found = judged(tables, unit={"attention": "sentences", "input": "words"})
    assert said(found, "41 % [38, 44] of the sentences")
    assert said(judged(level(), unit={"attention": "pooled"}), "41 % [38, 44] of the pooled items")
    found = judged(tables, unit={"attention": "sentences", "input": "words"}, tail_is_affine=False)
    assert said(found, "41 % [38, 44] of the words")


def test_two_rankings_of_one_name_are_told_apart():
    keys = (ATTENTION, CONTROL, PRODUCT, ("input", "gradient_x_attention"))
    found = judged(level(keys=keys))
    assert said(found, "Gradient x attention (attention level), the best of")


def test_attention_of_the_input_level_is_read_where_there_is_no_other():
    table = level("input", keys=(ATTENTION, CONTROL, PRODUCT))
    table.loc[table.ranking == "attention", "ranking_level"] = "input"
    assert judged(table, tail_is_affine=False).label == "unfaithful"


# the texts behind it


def test_what_was_set_aside_is_said():
    facts = {"aside": {"empty": 3, "the logits are NaN": 1}, "truncated": 1200}
    found = judged(level(level_too_short=(7.0, NAN, NAN)), **facts)
    assert (
        "500 texts were judged; 7 had fewer than two words to remove; set aside: 3 (empty) and 1 (the logits are NaN); "
        "1,200 were cut off at the longest length the model reads."
    ) in found.sentences
    assert "500 texts were judged." in judged(level()).sentences
    assert said(judged(level(flipped_at_all=(0.12, 0.1, 0.14))), "On 12 % [10, 14] of the texts attention flips the")
    assert found.sentences[-1].startswith(
        "Shares of words are means over texts; a text that never flips counts as 100 %"
    )


def counted(accuracy, majority, labelled=200):
    """Rows that say how often a model is right."""
    row = {"test": "erasure", "erase_level": "", "ranking_level": "", "ranking": "", "other": "", "slice": "all"}
    row |= {"texts": labelled, "note": "", "low": NAN, "high": NAN}
    ends = {"low": accuracy - 0.07, "high": accuracy + 0.07}
    own = row | {"figure": "accuracy", "value": accuracy} | ends
    return pd.DataFrame([own, row | {"figure": "majority_label", "value": majority}])


def test_how_often_the_model_is_right_is_said_and_whether_that_is_near_chance():
    good = judged(pd.concat([level(), counted(0.9, 0.5)]))
    assert "The model is right on 90 % [83, 97] of the 200 texts with a label." in good.parts["texts"]
    assert not said(good, "near chance")
    poor = judged(pd.concat([level(), counted(0.57, 0.5)]))
    assert said(
        poor, "Warning: this model decides near chance. Always answering the most frequent label would be right"
    )
    assert said(judged(pd.concat([level(), counted(0.91, 0.9)])), "near chance")  # nine texts in ten have one label
    assert not said(judged(level()), "The model is right")
    elsewhere = counted(0.57, 0.5).assign(test="agreement")
    assert said(judged(elsewhere, tail_is_affine=False), "near chance")


def test_single_weights_are_mentioned_where_they_were_tested():
    row = {"test": "single_weight", "erase_level": "attention", "ranking_level": "attention", "ranking": "attention"}
    row |= {"other": "", "slice": "all", "texts": 500, "note": ""}
    cells = [
        row | {"figure": "only_top", "value": 0.08, "low": 0.06, "high": 0.1},
        row | {"figure": "only_drawn", "value": 0.01, "low": 0.005, "high": 0.02},
    ]
    found = judged(pd.concat([level(), pd.DataFrame(cells)]))
    assert said(found, "on 8.0 % [6.0, 10.0] of the texts the decision flips without the most attended of the words")
    assert said(found, "the reverse on 1.0 % [0.5, 2.0].")
    assert not said(judged(level()), "One at a time")


def test_slices_are_not_read():
    table = pd.concat([level(), level(skill=(0.9, 0.85, 0.95)).assign(slice="class=1")])
    assert judged(table) == judged(level())


def test_no_sentence_holds_a_value_that_is_not_there():
    for table in (level(), level(exact=False), two(), level(keys=(ATTENTION, CONTROL)), level(skill=(NAN, NAN, NAN))):
        for facts in ({}, {"tail_is_affine": False}):
            text = str(judged(table, **facts))
            for trap in ("nan", "inf ", "None", "unknown share", "  "):
                assert trap not in text
            headings = ("", "Other rankings", "Texts")
            assert all(line.endswith(".") for line in text.splitlines() if line not in headings)


# numbers in words


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
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
