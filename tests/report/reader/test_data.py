"""The data of the reader: texts cut into tokens, and scores as letters."""

import json
from types import SimpleNamespace

import pytest

from attnfaith.data.source import Row
from attnfaith.errors import StorageError
from attnfaith.evaluation import stored_texts
from attnfaith.evaluation.stored_texts import STEPS, TEXTS
from attnfaith.functional.keyed_order import rows_at
from attnfaith.report.reader.data import GRADES, LONGEST_TOKEN, _text_entry, graded, reader_data
from attnfaith.text.encoder import TextEncoder
from tests.helpers import odd_texts
from tests.helpers.small_runs import KINDS, computed, evaluator_of


def entry_of(encoded):
    """As it comes back from a stored table."""
    capture = SimpleNamespace(items=None)
    batch = SimpleNamespace(stored=[0], encoded=[encoded], rows=[Row(0, encoded.text)], capture=capture)
    return _text_entry(stored_texts.text_rows(batch).to_pylist()[0])


def joined(entry, encoded):
    """The text that is shown, without the names of tokens that have no characters."""
    tokens = [
        "" if span is None or token == "·" else token for token, span in zip(entry["t"], encoded.offsets, strict=True)
    ]
    return "".join(gap + token for gap, token in zip(entry["b"], [*tokens, ""], strict=True))


@pytest.mark.parametrize("name", odd_texts.KINDS)
def test_the_tokens_and_what_is_between_them_are_the_whole_text(name, tmp_path):
    encoder = TextEncoder(odd_texts.KINDS[name](tmp_path), odd_texts.AnyModel())
    for text in ("english", "inner", "chinese", "lines", "odd"):
        encoded = encoder.encode([odd_texts.TEXTS[text]])[0]
        if all(span is None for span in encoded.offsets):
            continue
        entry = entry_of(encoded)
        assert joined(entry, encoded).replace("\\xad", "\xad") == odd_texts.TEXTS[text]
        assert len(entry["t"]) == len(encoded.ids) == len(entry["b"]) - 1


def test_scores_are_letters_and_none_is_lost_to_rounding():
    letters = graded([-1000, -1, 0, 1, 1000])
    assert [ord(letter) for letter in letters] == sorted(map(ord, letters))
    assert len(set(letters)) == 5, "a score that is not zero is never shown as zero"
    assert len({graded([score]) for score in range(-1000, 1001)}) == 2 * GRADES + 1
    assert graded([None, float("nan")]) == "--"


@pytest.mark.parametrize("kind", KINDS)
def test_the_data_are_those_of_the_tables(kind):
    results = computed(*evaluator_of(kind), "erasure")
    data = reader_data(results)
    json.dumps(data, allow_nan=False)
    steps, erasure = results.table(STEPS), results.table("erasure")
    assert data["facts"]["shown"] == data["facts"]["rows"] == len(data["texts"]) == 30
    level = data["levels"][0]
    keys = list(dict.fromkeys(zip(erasure["ranking_level"], erasure["ranking"], strict=True)))
    assert len(level["rankings"]) == len(keys)
    assert [ranking["role"] for ranking in level["rankings"]].count("attention") == 1
    rows = erasure.set_index(["text_id", "ranking_level", "ranking"])
    for text in data["texts"]:
        entry = text["l"][0]
        for key, (letters, removed, flips, at, classes, outputs) in zip(keys, entry["r"], strict=True):
            row = rows.loc[(text["n"], *key)]
            assert (len(letters), entry["n"]) == (row["items"], row["items"])
            assert len(removed) == (row["removed"] if flips else row["items"])
            assert bool(flips) is not bool(row["censored"])
            assert len(outputs) == len(at) * len(classes)
        smallest = steps[steps["ranking"].isna() & (steps["text_id"] == text["n"])]
        assert (
            [len(entry["m"])] * len(smallest) == smallest["removed"].map(len).tolist()
            if "m" in entry
            else not len(smallest)
        )
    assert len(data["labels"]) == {"sigmoid": 2, "regression": 1}.get(kind, 3)


def test_a_page_that_would_be_too_large_shows_the_beginning_of_the_random_order():
    evaluator, data = evaluator_of("multiclass")
    results = computed(evaluator, data, "erasure", seed=3)
    whole = reader_data(results)
    size = len(json.dumps(whole["texts"], ensure_ascii=False, separators=(",", ":")))
    part = reader_data(results, most_bytes=size // 3)
    shown = [text["n"] for text in part["texts"]]
    assert 5 <= len(shown) <= 12
    assert shown == sorted(rows_at(range(len(shown)), len(data), 3).tolist())
    assert part["facts"] == {**whole["facts"], "shown": len(shown)}
    assert [text for text in whole["texts"] if text["n"] in shown] == part["texts"]


def test_long_words_and_invisible_characters_are_shown_short_and_escaped():
    evaluator, _ = evaluator_of("multiclass")
    word = "w" * 50_000
    texts = [f"fine {word} film", "fine \x00 plot \x1b[2J film", "fine \u202eplot film \u2028 x"]
    data = [{"text": text} for text in texts * 4]
    results = computed(evaluator, data, "erasure", label_column=None)
    entries = reader_data(results)["texts"]
    assert max(len(token) for entry in entries for token in entry["t"]) < LONGEST_TOKEN + 40
    assert "50,000" not in entries[1]["t"]
    shown = json.dumps(entries, ensure_ascii=False)
    assert not {"\x00", "\x1b", "\u202e", "\u2028"} & set(shown)
    assert r"\\x1b" in shown
    assert r"\\u202e" in shown
    assert len(results.table(TEXTS)) == 12


@pytest.mark.parametrize(("name", "column", "value"), [(TEXTS, "names", "["), (TEXTS, "text_id", 10**6)])
def test_tables_of_somebody_else_that_contradict_each_other_are_refused(name, column, value):
    results = computed(*evaluator_of("multiclass"), "erasure")
    results.table(name)
    results._tables[name][column] = value
    with pytest.raises(StorageError, match=r"'stored_texts' and 'stored_steps' .* contradict each other"):
        reader_data(results)
