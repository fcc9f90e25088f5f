"""`train`: any preset, any labels, any split; complete models; what cannot be trained on is refused or counted."""

import json
import math
import re
from pathlib import Path

import fsspec
import numpy as np
import pandas
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig, BertModel

import attnfaith as af
from attnfaith.errors import InputError, NumericalError, StorageError
from attnfaith.training import DeceptiveAttention, FixedAttention, GumbelSoftmax, load_history, recipe, train
from tests.helpers.tokenizers import word_piece
from tests.helpers.training_data import rows, same, weights

DATA = rows(60)
NAMED = [row | {"label": ("bad", "good")[row["label"]]} for row in DATA]
QUICK = {"epochs": 1, "quiet": True}


@pytest.fixture(autouse=True)
def small_vectors(monkeypatch):
    """Presets with small vectors, so that the tests are quick."""
    from attnfaith.training import starting_model

    def small(*arguments, original=starting_model.from_preset, **options):
        return original(*arguments, **({"embedding_size": 12, "hidden_size": 8} | options))

    monkeypatch.setattr(starting_model, "from_preset", small)


def loaded(folder):
    return AutoModelForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def logits(model, tokenizer, texts):
    with torch.no_grad():
        return torch.cat([model(**tokenizer(text, return_tensors="pt")).logits for text in texts])


@pytest.mark.parametrize("name", af.models.presets())
def test_every_preset_gives_the_same_logits_after_loading(name, tmp_path, monkeypatch):
    from attnfaith.training import from_data

    trained = []

    def kept(folder, model, tokenizer, original=from_data._save):
        trained.append((model, tokenizer))
        original(folder, model, tokenizer)

    monkeypatch.setattr(from_data, "_save", kept)
    history = train(name, NAMED, output_dir=tmp_path, **QUICK)
    (model, tokenizer), again = trained[0], loaded(tmp_path)
    texts = [row["text"] for row in DATA[:4]]
    assert same(weights(model), weights(again[0]))
    # weights that are read from a file lie elsewhere in memory, and products round otherwise in the last bit
    torch.testing.assert_close(logits(model, tokenizer, texts), logits(*again, texts), rtol=0, atol=1e-6)
    assert again[0].config.id2label == {0: "bad", 1: "good"}
    assert load_history(tmp_path) == history
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "training.json",
    ]


def test_a_folder_is_a_complete_model(tmp_path):
    """The evaluation reads the same data, and gives the validation accuracy that the training states."""
    folder = tmp_path / "model"
    other = tmp_path / "dev.csv"
    pandas.DataFrame(NAMED[40:]).to_csv(other, index=False)
    history = train(
        "FLANnoenc", NAMED[:40], output_dir=folder, validation=str(other), learning_rate=0.05, epochs=6, quiet=True
    )
    results = af.Evaluator(folder).compute(str(other), rankings=["attention"], n_resamples=20, quiet=True)
    assert results.table("texts")["correct"].mean() == history.best["validation_accuracy"] > 0.8
    card = (folder / "README.md").read_text()
    for words in (
        "FLANnoenc",
        f"{history.best['validation_accuracy']:.3f}",
        "| `learning_rate` | 0.05 |",
        "sha256",
        "bad, good",
    ):
        assert words in card
    results.to_card(folder / "README.md", dataset_name="dev")  # an evaluation adds its section
    stored = json.loads((folder / "training.json").read_text())
    assert stored["finished"]
    assert stored["texts"] == [40, 20]


def test_the_same_arguments_return_the_finished_training(tmp_path):
    history = train("FLANnoenc", NAMED, output_dir=tmp_path, **QUICK)
    before = (tmp_path / "model.safetensors").stat().st_mtime_ns
    assert train("FLANnoenc", NAMED, output_dir=tmp_path, **QUICK) == history
    assert (tmp_path / "model.safetensors").stat().st_mtime_ns == before
    for options, words in [
        ({"epochs": 2}, "epochs was 1 there, and is 2 now"),
        ({"min_count": 1}, "min_count was None there, and is 1 now"),
        ({"dataset": "yelp"}, r"learning_rate was 0.0004 there, and is 0.0001 now"),
    ]:
        with pytest.raises(InputError, match=words):
            train("FLANnoenc", NAMED, output_dir=tmp_path, **(QUICK | options))
    with pytest.raises(InputError, match="the data differ"):
        train("FLANnoenc", NAMED[1:], output_dir=tmp_path, **QUICK)
    with pytest.raises(InputError, match="the model or preset differs"):
        train("FLANconv", NAMED, output_dir=tmp_path, **QUICK)
    (tmp_path / "training.json").unlink()
    with pytest.raises(InputError, match="holds other files"):
        train("FLANnoenc", NAMED, output_dir=tmp_path, **QUICK)
    with pytest.raises(InputError, match="no finished training"):
        load_history(tmp_path)
    with pytest.raises(InputError, match="is a file"):
        train("FLANnoenc", NAMED, output_dir=tmp_path / "config.json", **QUICK)
    with pytest.raises(InputError, match="is an address"):
        train("FLANnoenc", NAMED, output_dir="s3://bucket/model", **QUICK)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([1, 5], {0: "1", 1: "5"}),  # stars
        (["5", "1"], {0: "1", 1: "5"}),
        ([0, 1], {0: "LABEL_0", 1: "LABEL_1"}),
        ([True, False], {0: "LABEL_0", 1: "LABEL_1"}),
        (["Good ", "bad"], {0: "Good", 1: "bad"}),
    ],
    ids=str,
)
def test_labels_become_classes_that_an_evaluation_reads(labels, names, tmp_path):
    data = [row | {"label": labels[row["label"]]} for row in DATA]
    train("FLANnoenc", data, output_dir=tmp_path, **QUICK)
    assert loaded(tmp_path)[0].config.id2label == names
    results = af.Evaluator(tmp_path).compute(data[:6], rankings=["attention"], n_resamples=20, quiet=True)
    ordered = sorted({str(label) for label in labels}) if labels != [0, 1] else ["0", "1"]
    expected = [ordered.index(str(row["label"])) for row in data[:6]]
    assert results.table("texts")["gold"].tolist() == expected


def test_several_labels_numbers_pairs_and_one_logit(tmp_path):
    several = [row | {"label": [["a"], ["b", "a"]][row["label"]]} for row in DATA]
    train("FLANnoenc", several, output_dir=tmp_path / "several", **QUICK)
    config = loaded(tmp_path / "several")[0].config
    assert (config.problem_type, config.id2label) == ("multi_label_classification", {0: "a", 1: "b"})

    numbers = [row | {"label": row["label"] - 0.5} for row in DATA]
    with pytest.raises(InputError, match="decision='regression'"):
        train("FLANnoenc", numbers, output_dir=tmp_path / "numbers", **QUICK)
    history = train("FLANnoenc", numbers, output_dir=tmp_path / "numbers", decision="regression", **QUICK)
    assert (history.one_answer["answer"], math.isnan(history.best["validation_accuracy"])) == (
        "the mean of the labels",
        True,
    )
    assert load_history(tmp_path / "numbers") == history
    json.loads((tmp_path / "numbers" / "training.json").read_text(), parse_constant=pytest.fail)  # JSON has no NaN

    pairs = [row | {"second": "was it good"} for row in NAMED]
    train("JW-average-dot", pairs, output_dir=tmp_path / "pairs", second_input_column="second", **QUICK)
    assert loaded(tmp_path / "pairs")[0].config.query

    train("FLANnoenc", DATA, output_dir=tmp_path / "one", decision="sigmoid", **QUICK)
    assert loaded(tmp_path / "one")[0].config.num_labels == 1
    with pytest.raises(InputError, match="for labels 0 and 1"):
        train("FLANnoenc", NAMED, output_dir=tmp_path / "two", decision="sigmoid", **QUICK)


def test_splits_are_taken_by_their_usual_names(tmp_path):
    import datasets

    parts = {"test": rows(8, seed=3), "validation": rows(10, seed=1), "train": rows(30)}
    data = datasets.DatasetDict({name: datasets.Dataset.from_list(part) for name, part in parts.items()})
    for options, sizes in [
        ({}, [30, 10]),
        ({"validation": "test"}, [30, 8]),
        ({"split": "train[:20]", "validation": "train[20:]"}, [20, 10]),
        ({"split": "train+validation[:5]"}, [28, 7]),  # no epoch is chosen by what was trained on
    ]:
        folder = tmp_path / str(sizes)
        train("FLANnoenc", data, output_dir=folder, **QUICK, **options)
        assert json.loads((folder / "training.json").read_text())["texts"] == sizes


def test_data_are_read_from_addresses(tmp_path):
    table = pandas.DataFrame(NAMED)
    with fsspec.open("memory://bucket/train.csv", "w") as file:
        table[:45].to_csv(file, index=False)
    table[45:].to_csv(tmp_path / "dev.csv", index=False)
    dev = (tmp_path / "dev.csv").as_uri()
    for data, validation in (("memory://bucket/train.csv", dev), (NAMED[:45], NAMED[45:])):
        folder = tmp_path / type(data).__name__
        train("FLANnoenc", data, validation=validation, output_dir=folder, **QUICK)
        assert json.loads((folder / "training.json").read_text())["texts"] == [45, 15]
    assert same(weights(loaded(tmp_path / "str")[0]), weights(loaded(tmp_path / "list")[0]))


def test_a_keyed_share_is_held_out(tmp_path, capfd):
    from attnfaith.training.labelled_texts import read_labelled_texts

    sizes = {}
    for count in (10, 600, 5000):
        data = [{"text": str(number), "label": number % 2} for number in range(count)]
        first, again, other = (
            read_labelled_texts(data, af.data.source.DataOptions(), labels=None, seed=seed) for seed in (0, 0, 1)
        )
        assert first == again
        assert first.validation != other.validation
        assert sorted(row["text"] for row in first.train + first.validation) == sorted(row["text"] for row in data)
        sizes[count] = len(first.validation)
    assert sizes == {10: 2, 600: 100, 5000: 500}
    with pytest.raises(InputError, match="too few"):
        train("FLANnoenc", DATA[:4], output_dir=tmp_path, **QUICK)


def test_what_is_left_out_is_counted_and_classes_without_examples_are_named(tmp_path):
    import datasets

    odd = [*NAMED, {"text": " ", "label": "bad"}, {"text": None, "label": "good"}, {"text": "so so", "label": None}]
    train("FLANnoenc", odd, output_dir=tmp_path / "odd", **QUICK)
    notes = " ".join(json.loads((tmp_path / "odd" / "training.json").read_text())["notes"])
    assert "2 of 63 rows were left out: no text." in notes
    assert "1 of 63 rows was left out: no label." in notes
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["a", "b", "never"])}
    )
    train("FLANnoenc", datasets.Dataset.from_list(DATA, features=features), output_dir=tmp_path / "never", **QUICK)
    notes = " ".join(json.loads((tmp_path / "never" / "training.json").read_text())["notes"])
    assert "No text to train on has the label 'never'" in notes
    assert "No text to choose the epoch by has the label 'never'" in notes
    assert loaded(tmp_path / "never")[0].config.num_labels == 3


REFUSED = {
    "one class": ([row | {"label": "good"} for row in DATA], {}, "at least two classes"),
    "no labels": ([{"text": "good"}] * 9, {}, "no column 'label'"),
    "empty labels": ([{"text": "good", "label": None}] * 9, {}, "column of labels is empty"),
    "no texts": ([{"text": "", "label": 0}, {"text": "", "label": 1}], {}, "no text with a label to train on"),
    "ids": ([row | {"label": f"id {number}"} for number, row in enumerate(DATA)], {}, "60 classes for 60 rows"),
    "one word": ([{"text": "good", "label": number % 2} for number in range(20)], {}, "only one word"),
    "no word": ([{"text": f"w{number}", "label": number % 2} for number in range(20)], {}, "No word occurs 2 times"),
    "validation": (NAMED, {"validation": [{"text": "good", "label": "ugly"}]}, "the label 'ugly'"),
    "lists and not": ([*DATA[:9], {"text": "good", "label": [1]}], {}, "expected one label"),
    "mapping": (NAMED, {"label_mapping": {"nice": "good", "awful": "ghastly"}}, "does not mention it"),
    "dataset": (NAMED, {"dataset": "sst"}, "Known: 'imdb', 'yelp'"),
    "vectors": (NAMED, {"vectors": "none.txt"}, "There is no file 'none.txt'"),
    "split": (NAMED, {"split": "test"}, "split"),
    "rate": (NAMED, {"learning_rate": -1}, "Expected learning_rate"),
    "patience": (NAMED, {"patience": -1}, "Expected patience"),
    "seed": (NAMED, {"seed": -1}, "Expected seed"),
    "epochs": (NAMED, {"epochs": 0}, "Expected epochs"),
    "weight decay": (NAMED, {"weight_decay": -1.0}, "Expected weight_decay"),
    "norm": (NAMED, {"max_grad_norm": "x"}, "Expected max_grad_norm"),
    "length": (NAMED, {"max_length": 0}, "Expected max_length"),
    "count": (NAMED, {"min_count": 0}, "Expected min_count"),
    "no path": (NAMED, {"vectors": 3}, "Expected vectors to be a path"),
    "no mapping": (NAMED, {"label_mapping": 3}, "Expected label_mapping to be a dict"),
    "no column": (NAMED, {"label_column": None}, "Name their column with label_column"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_trained_on_is_refused(case, tmp_path):
    data, options, words = REFUSED[case]
    with pytest.raises(InputError, match=words):
        train("FLANnoenc", data, output_dir=tmp_path / "model", **(QUICK | options))
    assert not (tmp_path / "model").exists()  # so that the corrected call is not one of another training


def test_names_of_models_and_options_of_presets(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"no preset and no folder 'HANrn'. Did you mean 'HANrnn'"):
        train("HANrn", NAMED, output_dir=tmp_path, **QUICK)
    with pytest.raises(InputError, match="No classifier"):
        train(str(tmp_path / "nothing"), NAMED, output_dir=tmp_path / "a", **QUICK)
    for name, value in {"dataset": "imdb", "vectors": "a.txt", "min_count": 1}.items():
        with pytest.raises(InputError, match=f"{name} is for the presets"):
            train("./my-transformer", NAMED, output_dir=tmp_path / "a", **QUICK, **{name: value})
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="one process"):
        train("HANrnn", NAMED, output_dir=tmp_path, **QUICK)


def test_objectives_that_would_be_missing_in_the_folder_are_refused(tmp_path):
    for objective in (FixedAttention(), GumbelSoftmax()):
        with pytest.raises(InputError, match=f"{type(objective).__name__} replaces the attention until"):
            train("FLANnoenc", NAMED, output_dir=tmp_path / "model", objectives=[objective], **QUICK)
    assert not (tmp_path / "model").exists()


def test_marks_are_a_part_of_the_data(tmp_path):
    """The same texts with other marks are another training; rows that are left out take their marks with them."""
    marked = [row | {"marks": [match.span() for match in re.finditer(r"\bwas\b", row["text"])]} for row in NAMED]
    marked.insert(3, {"text": None, "label": "good", "marks": None})
    objectives = [DeceptiveAttention(column="marks", form="spans")]
    history = train("FLANnoenc", marked, output_dir=tmp_path / "a", objectives=objectives, **QUICK)
    by_words = train("FLANnoenc", NAMED, output_dir=tmp_path / "b", objectives=[DeceptiveAttention(["was"])], **QUICK)
    assert history.epochs == by_words.epochs
    marked[0]["marks"] = [(0, 3)]
    with pytest.raises(InputError, match="the data differ"):
        train("FLANnoenc", marked, output_dir=tmp_path / "a", objectives=objectives, **QUICK)


def test_word_vectors(tmp_path):
    words = ["film", "dreadful", "magnificent"]
    vectors = np.arange(12, dtype=np.float32).reshape(3, 4)
    lines = [f"{word} {' '.join(map(str, vector))}\n" for word, vector in zip(words, vectors, strict=True)]
    (tmp_path / "v.txt").write_text("".join(lines))
    np.save(tmp_path / "m.npy", vectors)
    (tmp_path / "m.txt").write_text("\n".join(words))
    (tmp_path / "other").mkdir()
    np.save(tmp_path / "other" / "n.npy", vectors)
    (tmp_path / "other" / "words-of-n.txt").write_text("\n".join(words))
    for name in ("v.txt", "m.npy", "other/n.npy"):
        folder = tmp_path / f"of {Path(name).name}"
        train("FLANnoenc", NAMED, output_dir=folder, vectors=tmp_path / name, freeze_vectors=True, **QUICK)
        model, tokenizer = loaded(folder)
        found = model.embeddings.weight[tokenizer.convert_tokens_to_ids(words)]
        assert torch.equal(found, torch.tensor(vectors))
    for content, words in [("film 1 two\n", "line 1"), ("zzz 1 2\n", "none of the"), ("film 1 nan\n", "NaN")]:
        (tmp_path / "bad.txt").write_text(content)
        with pytest.raises(InputError, match=words):
            train("FLANnoenc", NAMED, output_dir=tmp_path / "bad", vectors=tmp_path / "bad.txt", **QUICK)
    (tmp_path / "other" / "words-of-others.txt").touch()  # now nobody knows whose words they are
    with pytest.raises(InputError, match="words"):
        train("FLANnoenc", NAMED, output_dir=tmp_path / "bad", vectors=tmp_path / "other" / "n.npy", **QUICK)


@pytest.fixture
def bert(tmp_path):
    """A body without a head, as pretraining leaves it."""
    texts = [row["text"] for row in DATA]
    tokenizer = word_piece(texts)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(tmp_path / "bert")
    tokenizer.save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


def test_a_transformer_gets_a_head_for_the_labels_and_keeps_one_that_it_has(bert, tmp_path):
    train(bert, NAMED, output_dir=tmp_path / "first", **QUICK)
    train(bert, NAMED, output_dir=tmp_path / "again", **QUICK)
    model, _ = loaded(tmp_path / "first")
    assert model.config.id2label == {0: "bad", 1: "good"}
    assert same(weights(model), weights(loaded(tmp_path / "again")[0]))  # also the new head depends on the seed alone
    stored = json.loads((tmp_path / "first" / "training.json").read_text())["training"]
    assert {**recipe("fine-tuning", texts=48), "epochs": 1}.items() <= stored.items()
    train(tmp_path / "first", NAMED, output_dir=tmp_path / "more", learning_rate=1e-9, **QUICK)
    assert torch.allclose(loaded(tmp_path / "more")[0].classifier.weight, model.classifier.weight, atol=1e-6)
    with pytest.raises(InputError, match="has the label 'ugly': the model does not have it"):
        train(tmp_path / "first", [{"text": "good", "label": "ugly"}] * 9, output_dir=tmp_path / "x", **QUICK)


def test_a_class_that_only_validation_data_have_is_named(tmp_path):
    data = [{"text": f"a text {number}", "label": number % 2} for number in range(20)]
    with pytest.raises(InputError, match=r"^In the validation data: .* label 2: .* of a new model are those of the"):
        train("FLANnoenc", data, validation=[*data, {"text": "more", "label": 2}], output_dir=tmp_path / "x", **QUICK)


def test_a_body_that_is_not_whole_is_refused(bert, tmp_path):
    from safetensors.torch import load_file, save_file

    state = load_file(bert / "model.safetensors")
    state.pop("encoder.layer.0.output.dense.weight")
    save_file(state, bert / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="holds no whole model"):
        train(bert, NAMED, output_dir=tmp_path / "x", **QUICK)


def test_a_model_that_learns_nothing_is_called_so(tmp_path):
    noise = [
        {"text": row["text"], "label": "ab"[number * 7 % 5 == 0]} for number, row in enumerate(rows(80, classes=3))
    ]
    history = train("FLANnoenc", noise, output_dir=tmp_path / "noise", learning_rate=1e-9, epochs=2, quiet=True)
    assert history.one_answer["answer"] == "a"
    assert "no better than always answering 'a'" in history.warning
    assert "no better than always" in (tmp_path / "noise" / "README.md").read_text()
    assert load_history(tmp_path / "noise").warning == history.warning
    learned = train("FLANnoenc", rows(150), output_dir=tmp_path / "x", learning_rate=0.1, epochs=8, quiet=True)
    assert learned.one_answer["better"]
    assert learned.warning is None


def test_a_loss_of_nan_keeps_the_last_good_model(tmp_path):
    with pytest.raises(NumericalError, match=r"The model has the weights .* again. .*They are saved in"):
        train("FLANnoenc", NAMED, output_dir=tmp_path, learning_rate=1e30, max_grad_norm=0, epochs=3, quiet=True)
    model, _ = loaded(tmp_path)
    assert all(torch.isfinite(value).all() for value in weights(model).values())
    with pytest.raises(InputError, match="no finished training"):
        load_history(tmp_path)


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    from attnfaith.training import from_data

    def full(folder):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(from_data, "probe", full)
    with pytest.raises(StorageError, match="No space left"):
        train("FLANnoenc", NAMED, output_dir=tmp_path / "model", **QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["FLANnoenc", "Wen-mlp-dot-gumbel"])
def test_the_defaults_learn_from_600_short_texts(name, tmp_path, monkeypatch):
    """`benchmarks.training` does it for every preset."""
    from attnfaith.training import starting_model
    from benchmarks.training import accuracy, decisive

    monkeypatch.setattr(starting_model, "from_preset", af.models.from_preset)  # in its full size
    train(name, decisive(600, seed=0), output_dir=tmp_path, quiet=True)
    assert accuracy(str(tmp_path), decisive(300, seed=1)) >= 0.97
