"""The small parts of the reproductions in ``benchmarks/``; their figures are in docs/reproductions.md."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import attnfaith as af
from attnfaith.adapters.dummy_inputs import make_dummy_inputs
from attnfaith.evaluation.batch import Batch
from attnfaith.evaluation.tests.erasure.test import Erasure
from attnfaith.tiny_models import tiny_model
from benchmarks import _sst as sst
from benchmarks import erasing_long_texts, erasure, in_distribution, jain_wallace
from benchmarks._sst import BASE, Bench, name_of, words_of

WORDS = ["a", "fine", "dull", "film", "the", "plot", "is", "was"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Texts and word vectors laid out as the real ones are."""
    rows = [
        {"text": f"{article} {noun} {verb} {word} , {word} -- {word} .", "label": label}
        for article in ("The", "A")
        for noun in ("film", "plot", "story")
        for verb in ("is", "was")
        for label, word in enumerate(("dull", "fine"))
    ]
    longest = {"text": "the longest of them all is left out , too", "label": 0}
    for split in ("train", "dev", "test"):
        pd.DataFrame([*rows, {"text": "Fine .", "label": 1}, longest]).to_parquet(tmp_path / f"sst2-{split}.parquet")
    (tmp_path / "glove-6b-50d").mkdir()
    numbers = np.random.default_rng(0).standard_normal((len(WORDS), 50)).astype(np.float16)
    np.save(tmp_path / "glove-6b-50d" / "vectors-top40k.float16.npy", numbers)
    (tmp_path / "glove-6b-50d" / "words-top40k.txt").write_text("\n".join(WORDS))
    return tmp_path


def test_words_are_what_is_left_without_punctuation() -> None:
    assert words_of(pd.Series(["It 's co-written , isn't it ?", " ... ", "é 3.5"])).tolist() == [
        "It s co written isn t it",
        "",
        "é 3 5",
    ]


def test_a_name_says_what_is_not_as_in_the_base() -> None:
    assert name_of(BASE) == "base"
    assert name_of(replace(BASE, spread=None, epochs=2)) == "spread=None,epochs=2"
    changed = [settings for variants in jain_wallace.EXPERIMENTS.values() for settings in variants.values()]
    assert len({name_of(settings) for settings in changed}) == len(changed)
    assert "base" not in map(name_of, changed)


def test_short_texts_and_the_longest_are_left_out_and_the_vocabulary_keeps_their_words(folder: Path) -> None:
    bench = Bench(folder, folder / "kept")
    texts = bench.texts(BASE)["test"]
    assert len(texts) == 24
    assert texts["text"].str.split().str.len().eq(6).all()
    assert len(bench.texts(replace(BASE, at_least=0))["test"]) == 26
    assert "longest" in bench.tokenizer(BASE).get_vocab()


def test_a_rotation_keeps_every_product_of_word_vectors(folder: Path) -> None:
    bench, tokenizer = Bench(folder, folder), af.models.WordTokenizer.train([" ".join(WORDS)], min_count=1)
    plain, wide = (bench._vectors(tokenizer, replace(BASE, width=width)) for width in (50, 300))
    assert wide.words == plain.words == WORDS
    assert wide.matrix.shape == (len(WORDS), 300)
    np.testing.assert_allclose(wide.matrix @ wide.matrix.T, plain.matrix @ plain.matrix.T, rtol=1e-4, atol=1e-4)
    assert bench._vectors(tokenizer, replace(BASE, vectors=3)).words == WORDS[:3]


def test_user_word_vectors_replace_glove(folder: Path) -> None:
    path = folder / "own.vec"
    path.write_text("3 2\nfilm 1 2\nnobody 3 4\nplot 5 6\n")
    bench = Bench(folder, folder, path)
    assert bench._vectors(bench.tokenizer(BASE), BASE).words == ["film", "plot"]
    assert bench.missing(BASE).tolist() == ([5] * 8 + [6] * 4) * 2  # "The story is fine fine" has neither word


def test_other_gradients_are_those_they_say_they_are() -> None:
    model = af.models.from_preset(
        "JW-lstm-additive",
        vocab_size=20,
        embedding_size=5,
        num_labels=1,
        problem_type="single_label_classification",
        initializer_range=1.0,
    ).eval()
    inputs = {"input_ids": torch.tensor([[5, 6, 7, 8], [9, 10, 11, 0]])}
    inputs["attention_mask"] = (inputs["input_ids"] != 0).long()
    target = (model(**inputs).logits[:, 0] > 0).long()
    given = {name: getattr(sst, name)(model, inputs, target) for name in ("signed", "norm", "through_attention")}
    sizes = given["signed"].abs()
    fixed = af.Attributor(model, method="gradient_attention_fixed", level="input").attribute(
        inputs["input_ids"], target=target, additional_forward_args=(inputs["attention_mask"],)
    )
    torch.testing.assert_close(fixed.float(), sizes / sizes.sum(1, keepdim=True), rtol=1e-4, atol=1e-6)
    through = af.Attributor(model, method="gradient_x_input", level="input", output="probability").attribute(
        inputs["input_ids"], target=target, additional_forward_args=(inputs["attention_mask"],)
    )
    torch.testing.assert_close(given["through_attention"], through.abs().float(), rtol=1e-4, atol=1e-6)
    assert not torch.allclose(given["through_attention"], sizes)
    assert bool((given["norm"][1, 3] == 0) & (given["norm"][0] > 0).all())


@pytest.mark.slow
def test_the_command_prints_the_published_table_and_an_experiment(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ATTNFAITH_DATA", str(folder))
    command = ["jain_wallace", "sst2", "--seeds", "1", "--threads", "1", "--models", str(folder / "kept")]
    monkeypatch.setattr("sys.argv", [*command, "--experiment", "logits"])
    jain_wallace.main()
    message = capsys.readouterr().out
    assert "test: 12 negative and 12 positive texts (published: 863, 862)" in message
    assert "0.34 ± 0.21 (0.48)" in message
    assert "two logits, softmax" in message
    monkeypatch.setattr("sys.argv", command)
    jain_wallace.main()  # from what was kept
    assert "epoch" not in capsys.readouterr().out


def test_without_data_nothing_is_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("ATTNFAITH_DATA", raising=False)
    monkeypatch.setattr("sys.argv", ["jain_wallace"])
    jain_wallace.main()
    assert "left out" in capsys.readouterr().out


def test_the_texts_are_as_many_as_in_the_paper(data_dir: Path) -> None:
    texts = Bench(data_dir, data_dir).texts(BASE)
    counts = {split: tuple(texts[split]["label"].value_counts().sort_index()) for split in ("train", "test")}
    assert counts == jain_wallace.COUNTED


def test_the_controls_change_what_they_say() -> None:
    texts = ["one two three four five", "six seven"]
    changed = in_distribution.replaced(texts, ["x"], seed=0)
    assert [text.split().count("x") for text in changed] == [3, 1]
    for text, other in zip(texts, changed, strict=True):
        assert all(new in (word, "x") for word, new in zip(text.split(), other.split(), strict=True))
    moved = in_distribution.shuffled(texts, seed=0)
    assert [sorted(text.split()) for text in moved] == [sorted(text.split()) for text in texts]
    assert moved[0] != texts[0]


def test_a_batch_is_judged_again_from_its_capture_alone() -> None:
    """What the claims on erasing measure: nothing that an earlier round has computed is left."""
    model = tiny_model("bert")
    config = erasure.setup_for(model, ["attention"])
    (batch,) = erasure.batches(config, make_dummy_inputs(model, lengths=(9, 6)))
    first = Erasure().run(batch)
    fresh = erasure.again(batch)
    assert vars(Batch(config, batch.rows, [], batch.inputs)).keys() == vars(fresh).keys()
    assert not any(vars(fresh)[name] for name in ("orders", "erased", "known_sets", "_scores"))
    assert Erasure().run(fresh) == first
    (of_long_texts,) = erasing_long_texts.batches(model, make_dummy_inputs(model, lengths=(9, 6)))
    assert of_long_texts.config.hiding is not None
