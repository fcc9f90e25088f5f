"""What a verdict says: medians not reached, bounds, rivals, levels, warnings, what was set aside; numbers in words."""

import pandas as pd
import pytest

from attnfaith.evaluation.summaries.reading import listed, percent
from tests.evaluation.summaries.handmade import ATTENTION, CONTROL, INF, NAN, PRODUCT, judged, level, said, two

# words


def test_smallest_sets_that_are_not_known():
    found = judged(level(exact=False, skill=(0.9, 0.85, 0.95)))
    assert said(found, "the smallest set known that does is 6.0 % [5.0, 7.0].")
    assert said(found, "Of what attention removes, at most 30 % [28, 32] was needed")
    assert said(found, "The smallest sets here are the smallest found")
    assert not said(judged(level(skill=(0.9, 0.85, 0.95))), "smallest found")
    assert not said(judged(level(exact=False)), "smallest found")  # "unfaithful" is safe to say


def test_medians_that_are_not_reached():
    changed = {"median_fraction": (INF, 0.9, INF), "never_flipped": (0.62, 0.58, 0.66)}
    changed |= {"random_median_fraction": (INF, INF, INF), "random_never_flipped": (0.66, 0.62, 0.7)}
    found = judged(level(**changed))
    assert found.sentences[0] == (
        "Attention never flips the decision on 62 % [58, 66] of the texts, however many words are removed; "
        "the smallest set that flips it is 6.0 % [5.0, 7.0] of the words."
    )
    assert said(found, "A random order never flips it on 66 % [62, 70] of the texts")
    changed |= {"level_minimum_fraction_median": (INF, 0.9, INF)}
    assert said(judged(level(**changed)), "; on more than half of the texts no set of words flips it.")
    assert said(
        judged(level(**changed, exact=False)), "; on more than half of the texts no set of words is known to flip it."
    )


def test_a_smallest_set_of_which_nothing_is_known_is_not_mentioned():
    nothing = {"level_minimum_fraction_median": (NAN, NAN, NAN), "level_minimum_fraction_mean": (NAN, NAN, NAN)}
    found = judged(level(**nothing))
    assert found.sentences[0] == "Attention flips the decision after removing 41 % [38, 44] of the words."


def test_the_best_of_the_others():
    better = judged(level(rival_mean_difference=(0.3, 0.2, 0.4)))
    assert said(better, "Gradient x attention needs 6.3 %.")
    same = judged(level(rival_mean_difference=(0.0, -0.1, 0.1)))
    assert said(same, "No ranking that was run is clearly better; the best of the others, gradient x attention, needs")
    worse = judged(level(rival_mean_difference=(-0.3, -0.4, -0.2)))
    assert said(worse, "No other ranking that was run does as well; the next best, gradient x attention, needs")
    never = judged(level(best_median_fraction=(INF, INF, INF), best_never_flipped=(0.7, 0.6, 0.8)))
    assert said(never, "Gradient x attention never flips it on 70 % [60, 80] of the texts.")
    alone = judged(level(keys=(ATTENTION, CONTROL)))
    assert alone.sentences[1].startswith("A random order")


def test_rankings_that_cannot_be_told_from_a_random_order_are_all_named():
    table = level(gap_p_holm=(0.2, NAN, NAN))
    gradient = (table.ranking == "gradient") & (table.other == "attention/random") & (table.figure == "mean_difference")
    table.loc[gradient, "high"] = 0.1
    found = judged(table)
    assert said(found, "attention cannot be told from that")
    assert (
        "Warning: not to be told from a random order at the final attention: attention and gradient." in found.sentences
    )
    assert not said(judged(level()), "Warning")


def test_what_is_worse_than_a_random_order_is_named():
    worse = {"gap_mean_difference": (0.1, 0.05, 0.2), "gap_wins": (0.2, 0.1, 0.3), "gap_losses": (0.7, 0.6, 0.8)}
    found = judged(level(**worse, skill=(-0.2, -0.3, -0.1)))
    assert found.label == "unfaithful"
    assert said(found, "attention is worse than that")
    assert said(found, "attention goes no part of the way (-20 % [-30, -10])")
    assert said(found, "Warning: worse than a random order at the final attention: attention.")


def test_more_wins_must_go_with_less_removed():
    found = judged(level(gap_wins=(0.2, 0.1, 0.3), gap_losses=(0.7, 0.6, 0.8)))
    assert said(found, "attention cannot be told from that")


# levels


def test_a_transformer_is_judged_by_its_input_and_told_why():
    found = judged(two(skill=(0.6, 0.3, 0.9)), kind="transformer", unit="tokens", special_tokens=True)
    assert (found.label, found.level) == ("unfaithful", "input")
    assert said(found, "This speaks of the input level: tokens are taken away from the whole model (hidden from")
    assert said(found, "on 10 % [8, 12] of the texts at the input level and on 62 % [54, 70] of the texts at the final")
    assert said(found, "every ranking leaves at least 49 % [41, 57] of the decisions as they are")
    assert said(found, "so the input level is judged")
    assert said(found, "The two levels differ: judged at the final attention alone, the verdict would be undecided.")
    assert said(found, "Special tokens such as [CLS] are among the tokens.")


def test_levels_that_agree_in_the_label_may_differ_in_what_flips():
    found = judged(two(), kind="transformer")
    assert said(
        found, "The two levels differ in how much flips; judged at the final attention alone, the verdict is the same"
    )
    alike = pd.concat([level("attention"), level("input")])
    found = judged(alike, kind="transformer")
    assert said(found, "Judged at the final attention alone, the verdict is the same.")
    assert said(found, "It is judged because there a token is gone from every layer")


def test_a_model_with_nothing_past_its_attention_is_judged_there():
    found = judged(pd.concat([level("attention"), level("input", skill=(0.9, 0.85, 0.95))]))
    assert found.level == "attention"
    assert said(found, "nothing goes past the final attention")
    assert said(found, "The two levels differ: judged at the input level alone, the verdict would be faithful.")


def test_one_level_only():
    found = judged(level("attention"))
    assert said(found, "This speaks of the final attention: the weights of words are set to 0 there, and nowhere else.")
    assert not said(found, "It is judged because")
    assert not said(found, "two levels")
    silent = judged(two()[lambda table: table.erase_level == "attention"], kind="transformer")
    assert silent.level == "attention"
    assert said(silent, "Erasing at the input level (level='input') would say more.")
    assert judged(level("input"), kind="affine").level == "input"
    assert not said(judged(level("input"), kind="transformer"), "It is judged because")


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
    assert said(judged(level("input"), kind="transformer", hide=hide), words)


def test_units_may_differ_by_level():
    tables = pd.concat([level("attention"), level("input")])
    found = judged(tables, unit={"attention": "sentences", "input": "words"})
    assert said(found, "41 % [38, 44] of the sentences")
    assert said(judged(level(), unit={"attention": "pooled"}), "41 % [38, 44] of the pooled items")
    found = judged(tables, unit={"attention": "sentences", "input": "words"}, kind="transformer")
    assert said(found, "41 % [38, 44] of the words")


def test_two_rankings_of_one_name_are_told_apart():
    keys = (ATTENTION, CONTROL, PRODUCT, ("input", "gradient_x_attention"))
    found = judged(level(keys=keys))
    assert said(found, "Gradient x attention (attention level) needs")


def test_attention_of_the_input_level_is_read_where_there_is_no_other():
    table = level("input", keys=(ATTENTION, CONTROL, PRODUCT))
    table.loc[table.ranking == "attention", "ranking_level"] = "input"
    assert judged(table, kind="transformer").label == "unfaithful"


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
    assert found.sentences[-1].startswith("Shares of words are medians over texts. In brackets: 95 % intervals")


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
        for facts in ({}, {"kind": "transformer"}):
            text = str(judged(table, **facts))
            for trap in ("nan", "inf ", "None", "unknown share", "  "):
                assert trap not in text
            assert all(sentence.endswith(".") for sentence in text.splitlines())


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
