"""The loop over batches: memory that runs out, texts that are set aside, and what a run says of its deciding tokens."""

import pandas as pd
import pytest
import torch

import attnfaith as af
from attnfaith.tiny_models import tiny_model
from tests.helpers import tokenizers
from tests.helpers.labelled_models import flipping_model

WORDS = "a fine dull film plot cast acting long thin with".split()


@pytest.fixture(scope="module")
def flan():
    """In float64, with weights so large that decisions flip."""
    return flipping_model("FLANrnn", WORDS)


def evaluated(flan, data, **options):
    options = {"rankings": ["attention"], "tests": ["erasure"], "label_column": None, **options}
    return af.Evaluator(*flan).compute(data, n_resamples=9, quiet=True, **options)


def same(first, other, name):
    pd.testing.assert_frame_equal(first.table(name), other.table(name), rtol=1e-9, atol=1e-12)


class Tight:
    """Memory for so many tokens at once: a pass over more of them asks the allocator for more than there is.

    The error is PyTorch's own.
    """

    def __init__(self, model, tokens):
        self.model, self.tokens, self.sizes, self.failed = model, tokens, [], []
        self.attend = model.attend

    def __enter__(self):
        def attend(input_ids=None, *more, **inputs):
            batch, width = input_ids.shape
            if batch * width > self.tokens:
                self.failed.append((batch, width))
                torch.empty(2**60, dtype=torch.uint8)
            self.sizes.append((batch, width))
            return self.attend(input_ids, *more, **inputs)

        self.model.attend = attend
        return self

    def __exit__(self, *_):
        del self.model.attend


def lengths_of(count):
    """Texts of 6 to 24 words, the long ones in the first shard and in the last."""
    draw = torch.Generator().manual_seed(1)
    sizes = [24 if index < 40 or index >= count - 40 else 6 for index in range(count)]
    return [
        {"text": " ".join(WORDS[item] for item in torch.randint(len(WORDS), (size,), generator=draw).tolist())}
        for size in sizes
    ]


def test_batches_recover_from_memory_that_ran_out_and_nothing_changes(flan, monkeypatch):
    monkeypatch.setattr(af.Evaluator, "shard_size", 64)
    data = lengths_of(320)
    whole = evaluated(flan, data)
    with Tight(flan[0], tokens=24 * 10) as tight:
        again = evaluated(flan, data)
    same(whole, again, "erasure")
    same(whole, again, "texts")
    assert tight.failed, "memory never ran out: this proves nothing"
    assert (32, 6) in tight.sizes  # short texts go in whole batches again
    long = [batch for batch, width in tight.sizes if width == 24]
    assert max(long) > 8  # half of 32 was too much, a quarter was tried, and more again later
    assert len(tight.failed) <= len(tight.sizes) // 4


@pytest.mark.parametrize("index", [0, 80])
def test_memory_that_runs_out_on_one_text_says_which(flan, index):
    """Among the first texts, where a run starts by trying one, and among the others."""
    data = lengths_of(100)
    data.insert(index, {"text": "fine " * 50})
    evaluator = af.Evaluator(*flan)
    with (
        Tight(flan[0], tokens=40),
        pytest.raises(af.AttnFaithError, match=rf"Memory ran out on row {index}, which is 50 tokens.*max_length"),
    ):
        evaluator.compute(data, label_column=None, quiet=True)


@pytest.mark.parametrize("empty", ["", "   ", "[SEP]", "[CLS] [SEP]", ("", " ")])
def test_a_text_of_which_only_special_tokens_are_left_is_set_aside(empty):
    """The tokenizer adds special tokens, so there is something to classify, but nothing of the text."""
    tokenizer = tokenizers.word_piece()
    tokenizer.add_special_tokens({"cls_token": "[CLS]", "sep_token": "[SEP]"})
    model = tiny_model("bert")
    model.resize_token_embeddings(len(tokenizer))
    evaluator = af.Evaluator(model, tokenizer)
    texts = ["a thin plot", "", "superb cast it is"]
    pair = isinstance(empty, tuple)
    rows = [{"text": text, "other": text} for text in texts]
    rows[1] = {"text": empty[0], "other": empty[1]} if pair else {"text": empty, "other": empty}
    results = evaluator.compute(
        rows,
        rankings=["attention"],
        second_input_column="other" if pair else None,
        label_column=None,
        n_resamples=9,
        quiet=True,
    )
    table = results.table()
    assert table["aside"].notna().tolist() == [False, True, False]
    assert "no token of the text itself remains" in table["aside"][1]
    assert table["prediction"].isna().tolist() == [False, True, False]
    assert set(results.table("erasure")["text_id"]) == {0, 2}


def test_a_pair_with_one_empty_text_is_judged():
    evaluator = af.Evaluator(tiny_model("bert"), tokenizers.word_piece())
    rows = [{"text": "a thin plot", "other": ""}, {"text": "superb", "other": "a cast"}]
    results = evaluator.compute(
        rows, rankings=["attention"], second_input_column="other", label_column=None, n_resamples=9, quiet=True
    )
    assert results.table()["aside"].isna().all()


def test_the_notes_say_that_the_deciding_token_stays_and_the_manifest_that_it_is_protected(tmp_path):
    model, tokenizer = tiny_model("bert"), tokenizers.word_piece()
    rows = [{"text": "a thin plot"}, {"text": "superb cast it is"}]
    asked = {"rankings": ["attention"], "label_column": None, "n_resamples": 9, "quiet": True}
    evaluator = af.Evaluator(model, tokenizer)
    plain = evaluator.compute(rows, **asked)
    deleted = evaluator.compute(rows, hide="delete", **asked)
    assert plain.manifest["run"]["protect_deciding"] is False
    assert deleted.manifest["run"]["protect_deciding"] is True
    assert any("stays in the text and is no item" in note for note in deleted.manifest["notes"])
    assert not any("not an item" in note for note in plain.manifest["notes"])
    items = [entry.table("erasure").query("erase_level == 'input'")["items"].tolist() for entry in (plain, deleted)]
    assert [count - 1 for count in items[0]] == items[1]
