"""Rationales against loops of full reruns and scikit-learn; and what must hold whatever the model."""

import math
import re
from dataclasses import replace

import pytest
import torch

from attnfaith.errors import InputError, NumericalError
from attnfaith.evaluation.rankings import Ranking
from attnfaith.evaluation.removal import AttentionEraser
from attnfaith.evaluation.tests.rationales.test import COLUMNS, Rationales
from attnfaith.text.annotations import Rationale
from tests.helpers.comparing import inputs_of
from tests.helpers.removal_batches import LENGTHS, SIZES, batch_of, hiding_of, model_of, one_of, ranked, slowly, table
from tests.helpers.slow_erasure import RANKINGS
from tests.helpers.slow_rationales import SHARES, SlowRationales, drawn_marks, with_words

FAMILIES = ["FLANrnn", "bert", *slowly("HANrnn", "llama", "FLANnoenc")]
NUMBERS = ("comprehensiveness", "sufficiency", "all_erased", "auprc")


def marked_batch(family, kind="multiclass", **more):
    batch = batch_of(family, kind, **({"rankings": RANKINGS} | more))
    return with_words(batch, drawn_marks(batch))


def close(result, expected, tolerance=1e-9):
    if isinstance(expected, list):
        assert len(result) == len(expected)
        for first, other in zip(result, expected, strict=True):
            close(first, other, tolerance)
    elif expected is None or isinstance(expected, str | int):
        assert result == expected
    else:
        assert result == pytest.approx(expected, abs=tolerance, nan_ok=True)


@pytest.mark.parametrize("kind", list(SIZES))
@pytest.mark.parametrize("family", FAMILIES)
def test_equals_erasing_and_keeping_one_set_at_a_time(family, kind):
    batch = marked_batch(family, kind, lengths=(3, *LENGTHS))
    shares = (*SHARES, 1.0)
    rows, seen, effect, undefined = table(Rationales(shares=shares).run(batch)), 0, 0.0, 0
    for level, rankings in RANKINGS.items():
        slow = SlowRationales(batch, level, shares)
        for text in range(len(batch.rows)):
            count = len(slow.slow.erasable(text))
            for ranking in rankings:
                key = (text, ranking.level, ranking.name, level)
                if count < 2:
                    assert key not in rows
                    continue
                row, seen = rows[key], seen + 1
                assert list(row) == [name for name, _ in COLUMNS]
                without, alone = slow.drops(ranking, text)
                assert (row["items"], row["undefined"]) == (count, 0)
                close(row["comprehensiveness_at"], without)
                close(row["sufficiency_at"], alone)
                close(row["comprehensiveness"], sum(without) / len(shares))
                close(row["sufficiency"], sum(alone) / len(shares))
                close(row["all_erased"], slow.all_erased(text))
                agreed = slow.agreement(ranking, text)
                if agreed is None:
                    assert [row[name] for name in ("auprc", "order", "rationale", "unread")] == [None] * 4
                else:
                    close(row["auprc"], agreed[0])
                    assert (row["order"], [list(span) for span in row["rationale"]]) == agreed[1:]
                    assert row["unread"] == 0
                    undefined += math.isnan(agreed[0])
                effect = max(effect, *map(abs, without + alone))
    assert len(rows) == seen
    assert undefined
    assert effect > 1e-3  # far above what is allowed for rounding


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_is_its_texts_one_by_one_and_padding_changes_nothing(family):
    inputs = inputs_of(model_of(family), lengths=LENGTHS, seed=2)
    batch = marked_batch(family, inputs=inputs)
    together = table(Rationales().run(batch))
    apart = {}
    for text in reversed(range(len(LENGTHS))):
        single = batch_of(family, rankings=RANKINGS, inputs=one_of(inputs, text), numbers=[text])
        apart |= table(Rationales().run(with_words(single, [batch.rows[text].rationale])))
    assert together.keys() == apart.keys()
    for key, row in together.items():
        for name, value in row.items():
            close(apart[key][name], value)


@pytest.mark.parametrize("family", ["FLANrnn", *slowly("llama")])
def test_the_side_of_the_padding_changes_nothing(family):
    model, result = model_of(family), []
    for side in ("right", "left"):
        batch = marked_batch(family, inputs=inputs_of(model, lengths=(9, 5, 7, 6), seed=2, side=side))
        hiding = hiding_of(batch.config.cut, batch.inputs, left=side == "left")
        batch.config = replace(batch.config, hiding=hiding)
        result.append(table(Rationales().run(batch)))
    for key, row in result[0].items():
        for name, value in row.items():
            if key[2] != "random":  # drawn by position
                close(result[1][key][name], value, 1e-6)


@pytest.mark.parametrize("family", ["FLANrnn", "bert", *slowly("HANrnn", "llama")])
def test_everything_erased_is_everything_erased_and_everything_kept_is_nothing_changed(family):
    rows = table(Rationales(shares=(0.5, 1.0)).run(marked_batch(family)))
    for (_, _, _, level), row in rows.items():
        if not math.isnan(row["all_erased"]):
            assert row["comprehensiveness_at"][1] == pytest.approx(row["all_erased"], abs=1e-12)
        else:
            assert (family[:3] in ("FLA", "HAN"), level) == (True, "input")
        assert row["sufficiency_at"][1] == pytest.approx(0, abs=1e-12)


def yours(name, scores):
    """A ranking from a function of the number of tokens."""
    return Ranking(name, "yours", lambda encoded: scores(len(encoded.ids)))


UP, DOWN = yours("up", lambda count: range(count)), yours("down", lambda count: range(count, 0, -1))


@pytest.mark.parametrize("level", ["attention", "input"])
@pytest.mark.parametrize("family", ["FLANrnn", "bert"])
def test_without_the_top_half_is_with_the_bottom_half_alone(family, level):
    batch = batch_of(family, rankings={level: (UP, DOWN)}, lengths=(6, 8, 4))
    rows = table(Rationales(shares=(0.5,)).run(with_words(batch)))
    for text in range(3):
        up, down = (rows[text, "yours", name, level] for name in ("up", "down"))
        assert up["items"] % 2 == 0
        assert up["comprehensiveness"] == pytest.approx(down["sufficiency"], abs=1e-12)
        assert up["sufficiency"] == pytest.approx(down["comprehensiveness"], abs=1e-12)
        assert up["order"] is None


@pytest.mark.parametrize("kind", ["multiclass", "regression"])
def test_rankings_that_agree_are_run_once(kind, monkeypatch):
    """Two rankings of one order cost what one does; the state with nothing left is shared by all."""
    counted = []
    run = AttentionEraser.logits_of
    monkeypatch.setattr(
        AttentionEraser, "logits_of", lambda self, texts, keep: counted.append(len(texts)) or run(self, texts, keep)
    )
    for rankings in ((UP,), (UP, yours("twice", lambda count: [2 * item for item in range(count)])), (UP, DOWN)):
        Rationales().run(with_words(batch_of("FLANnoenc", kind, rankings={"attention": rankings}, lengths=(7, 12))))
    assert counted[0] == counted[1] < counted[2]


def test_no_other_ranking_has_more_than_the_best_first_step():
    """With one item erased, leaving each out in turn is the best there is."""
    names = ("attention/occlusion", "attention/attention", "attention/gradient_x_attention", "attention/random")
    for family in ("FLANrnn", "bert"):
        batch = batch_of(family, rankings={"attention": ranked(*names)})
        rows = table(Rationales(shares=(0.01,)).run(batch))
        for text in range(len(LENGTHS)):
            result = {name: rows[text, "attention", name.split("/")[1], "attention"] for name in names}
            best = result["attention/occlusion"]["comprehensiveness"]
            assert all(row["comprehensiveness"] <= best + 1e-12 for row in result.values())


@pytest.mark.parametrize("level", ["attention", "input"])
def test_protected_tokens_stay_in_every_set(level):
    """They are neither erased nor missing from what is kept alone; and the rest is what loops say."""
    batch = marked_batch("bert", special_tokens="protect")
    slow = SlowRationales(batch, level)
    rows = table(Rationales().run(batch))
    for text, ranking in ((text, item) for text in range(len(LENGTHS)) for item in RANKINGS[level]):
        row = rows[text, ranking.level, ranking.name, level]
        assert row["items"] == len(slow.slow.erasable(text)) < len(slow.slow.items[text])
        without, alone = slow.drops(ranking, text)
        close(row["comprehensiveness_at"], without)
        close(row["sufficiency_at"], alone)


def test_tokens_that_no_one_scored_are_counted_and_go_last():
    mine = yours("mine", lambda count: [math.nan, 5.0] + [math.nan] * (count - 2))
    rows = table(Rationales().run(with_words(batch_of("FLANnoenc", rankings={"attention": (mine,)}, lengths=(6, 5)))))
    assert [row["undefined"] for row in rows.values()] == [5, 4]


def test_numbers_that_are_not_finite_set_the_batch_aside(monkeypatch):
    batch = batch_of("FLANnoenc", rankings={"attention": (UP,)})
    monkeypatch.setattr(AttentionEraser, "logits_of", lambda self, texts, keep: torch.full((len(texts), 3), math.inf))
    with pytest.raises(NumericalError, match="not finite"):
        Rationales().run(with_words(batch))


def test_texts_that_are_too_short_have_no_rows():
    inputs = {"input_ids": torch.tensor([[5], [6]]), "attention_mask": torch.ones(2, 1, dtype=torch.long)}
    result = Rationales().run(with_words(batch_of("FLANnoenc", rankings={"attention": (UP,)}, inputs=inputs)))
    assert result == {name: [] for name, _ in COLUMNS}


def test_ranges_of_characters_stay_apart_where_they_touch():
    ranges = ((0, 5), (3, 8), (0, 2))  # w0 w1, w1 w2, w0
    batch = with_words(batch_of("FLANnoenc", rankings={"attention": (UP,)}, lengths=(6,)), [Rationale(ranges, "spans")])
    assert Rationales().run(batch)["rationale"] == [[(0, 2), (1, 3), (0, 1)]]


def test_ranges_in_one_sentence_are_one_range_of_sentences():
    batch = with_words(batch_of("HANnoenc", rankings={"attention": ranked("attention/attention")}, lengths=(12,)))
    spans = batch.capture.items.spans[0].tolist()
    assert len(spans) > 2
    words = [match.span() for match in re.finditer(r"\S+", batch.encoded[0].text)]
    ordinary = [index for index, segment in enumerate(batch.encoded[0].segments) if segment is not None]
    inside = [words[number] for number, index in enumerate(ordinary) if spans[1][0] <= index < spans[1][1]]
    assert len(inside) > 1
    batch = with_words(batch, [Rationale(tuple(inside), "spans")])
    assert Rationales().run(batch)["rationale"] == [[(1, 2)]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shares": ()}, "shares to be numbers above 0"),
        ({"shares": (0.1, 0.1)}, "each once"),
        ({"shares": (0.0, 0.5)}, "above 0"),
        ({"shares": (5,)}, "up to 1"),
        ({"shares": ("a",)}, "shares"),
        ({"shares": [[0.1]]}, "shares"),
        ({"shares": (True,)}, "shares"),
        ({"top": 0}, "top"),
        ({"top": 1.5}, "top"),
        ({"top": "all"}, "top"),
        ({"form": "list"}, "mask, spans, words"),
    ],
)
def test_options_that_cannot_be_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        Rationales(**options)


def test_options_may_come_from_a_manifest():
    assert Rationales(shares=[0.1, 0.5]) == Rationales(shares=(0.1, 0.5))
    assert Rationales(shares=0.5).options == {"shares": (0.5,), "top": None, "form": None, "soft": 0}
