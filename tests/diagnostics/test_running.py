"""A whole diagnosis: what it leaves, how it goes on, and what is refused."""

import shutil

import numpy as np
import pytest
import torch

import attnfaith as af
from attnfaith.diagnostics import diagnose, load_diagnosis
from attnfaith.diagnostics.folder import DiagnosisFolder
from attnfaith.diagnostics.known import diagnostics
from attnfaith.diagnostics.probe.mlp import train_probe
from attnfaith.diagnostics.retraining import Retraining
from attnfaith.errors import InputError, UnsupportedModelError
from attnfaith.estimates.lookup import signed_points
from attnfaith.training import fit
from tests.helpers.training_data import rows, small, weights

SETTINGS = {"learning_rate": 0.05, "epochs": 2}
OPTIONS = {"seeds": 2, "lambdas": (0.0, 0.1), "training": SETTINGS, "n_resamples": 60, "quiet": True}
DATA = rows(120)


def trained():
    model, tokenizer = small("FLANnoenc")
    fit(model, tokenizer, DATA[:80], DATA[80:100], **SETTINGS)
    return model, tokenizer


@pytest.fixture(scope="module")
def base():
    return trained()


@pytest.fixture(scope="module")
def diagnosis(base, tmp_path_factory):
    model, tokenizer = base
    before = weights(model)
    result = diagnose(model, DATA, tokenizer, output_dir=tmp_path_factory.mktemp("run") / "d", **OPTIONS)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    return result


@pytest.fixture
def copied(diagnosis, tmp_path):
    return shutil.copytree(diagnosis.path, tmp_path / "d")


def no_training(monkeypatch):
    def train(*arguments, **options):
        pytest.fail("a model is trained that is there")

    monkeypatch.setattr(Retraining, "train", train)


def test_classes_whose_names_are_numbers(tmp_path):
    """A model trained on stars is diagnosed on the same data."""
    stars = [row | {"label": row["label"] + 1} for row in DATA]
    training = {"epochs": 2, "learning_rate": 0.05}
    af.training.train("FLANnoenc", stars, output_dir=tmp_path / "model", quiet=True, **training)
    diagnosis = diagnose(tmp_path / "model", stars, output_dir=tmp_path / "d", tests=["uniform"], **OPTIONS)
    assert diagnosis.manifest["facts"]["labels"] == ["1", "2"]


def test_every_diagnostic_has_tables_estimates_sentences_and_a_figure(diagnosis, tmp_path):
    assert diagnosis.tests == list(diagnostics)
    for name in diagnosis.tests:
        assert len(diagnosis.table(name)) >= 18 * 2
        assert diagnosis.table(name)["text_id"].nunique() == 18
        assert diagnosis.figures(name).all_names(next(iter(diagnostics[name].reported)))
        sentences = diagnosis.sentences(name)
        assert sentences
        assert not any("nan" in sentence.split() for sentence in sentences)
        diagnosis.plot(name, tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    summary = diagnosis.summary()
    known = summary.dropna(subset=["low"])
    assert (known["low"] <= known["value"]).all()
    assert (known["value"] <= known["high"]).all()
    assert str(load_diagnosis(diagnosis.path)) == str(diagnosis)


def test_axes_of_accuracy_end_at_all_texts(diagnosis):
    for name in ("uniform", "probe"):
        low, high = diagnosis.plot(name).axes[0].get_xlim()
        assert 0 <= low < 0.96
        assert low < high <= 1


def test_estimates_are_those_of_the_tables(diagnosis):
    table = diagnosis.table("seeds")
    by_text = table.groupby("text_id")["jsd"].median()
    assert diagnosis.figures("seeds").get("jsd").value == pytest.approx(by_text.median())
    probe = diagnosis.table("probe")
    for guide, part in probe.groupby("kind"):
        expected = (part["prediction"] == part["gold"]).mean()
        assert diagnosis.figures("probe").get("accuracy", guide).value == pytest.approx(expected)
    twin = diagnosis.table("adversary")
    part = twin[twin["model"] == "lambda 0.1"]
    assert diagnosis.figures("adversary").get("tvd", "lambda 0.1").value == pytest.approx(part["tvd"].mean())


def test_stored_models_give_the_outputs_that_were_measured(diagnosis, base):
    """The model with learned attention as it is, the one with uniform attention with its attention held."""
    from transformers import AutoModelForSequenceClassification

    tokenizer, table = base[1], diagnosis.table("uniform")
    texts = {row["text_id"]: DATA[row["text_id"]]["text"] for _, row in table.iterrows()}
    for kind in ("learned", "uniform"):
        model = AutoModelForSequenceClassification.from_pretrained(diagnosis.path / "models" / f"{kind}-0").eval()
        if kind == "uniform":
            with torch.no_grad():  # scores that are all equal
                model.attention.context.weight.zero_()
        rows_of = table[(table["kind"] == kind) & (table["seed"] == 0)]
        for row in rows_of.itertuples():
            with torch.no_grad():
                logits = model(**tokenizer(texts[row.text_id], return_tensors="pt")).logits[0]
            assert int(logits.argmax()) == row.prediction


def test_the_trade_off_names_every_lambda(diagnosis):
    axis = diagnosis.plot("adversary").axes[0]
    written = [note.get_text() for note in axis.texts]
    assert {"0", "0.1"} <= set(written)
    filled = [line for line in axis.lines if line.get_marker() == "o" and line.get_markerfacecolor() != "white"]
    chosen = diagnosis.figures("adversary").get("chosen_jsd").value
    assert [float(line.get_xdata()[0]) for line in filled] == [chosen]
    triangles = next(line for line in axis.lines if line.get_marker() == "^")
    assert len(triangles.get_xdata()) == 2


def test_the_report_loads_nothing_and_has_every_diagnostic(diagnosis, tmp_path):
    page = diagnosis.to_html(tmp_path / "page.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "<script src" not in page
    for name in diagnosis.tests:
        assert f'id="test-{name}"' in page
        assert diagnostics[name].question in page
    assert page.count("<svg") == len(diagnosis.tests)
    for name in ("uniform", "probe"):
        figures = diagnosis.figures(name)
        for of in figures.names("accuracy_difference"):
            assert f"<td>{signed_points(figures.get('accuracy_difference', of))}</td>" in page
    assert "Wiegreffe" in page


def test_a_finished_diagnosis_trains_nothing_again(copied, base, diagnosis, monkeypatch):
    no_training(monkeypatch)
    again = diagnose(base[0], DATA, base[1], output_dir=copied, **OPTIONS)
    assert again.summary().equals(diagnosis.summary())


def test_a_killed_diagnosis_trains_only_what_is_missing_to_the_same_outputs(copied, base, diagnosis, monkeypatch):
    shutil.rmtree(copied / "models" / "uniform-1")
    for file in (copied / "outputs").glob("uniform-1-*"):
        file.unlink()
    original, seeds = Retraining.train, []
    monkeypatch.setattr(
        Retraining, "train", lambda self, seed, *rest, **more: seeds.append(seed) or original(self, seed, *rest, **more)
    )
    again = diagnose(base[0], DATA, base[1], output_dir=copied, **OPTIONS)
    assert seeds == [1]
    assert again.summary().equals(diagnosis.summary())


def test_the_probe_is_imposed_the_weights_of_the_adversary_that_is_chosen_now(copied, base, monkeypatch):
    """Another largest distance chooses another adversary: what was stored of the former one is not taken for it."""
    trained_on = []

    def spy(embeddings, train, *rest, **options):
        trained_on.append(train.weights)
        return train_probe(embeddings, train, *rest, **options)

    monkeypatch.setattr("attnfaith.diagnostics.probe.diagnostic.train_probe", spy)
    no_training(monkeypatch)
    imposed = {}
    for file in (copied / "outputs").glob("probe-*"):
        if "adversary" in file.name:
            file.unlink()
    for distance in (1e-6, 1.0):
        again = diagnose(base[0], DATA, base[1], output_dir=copied, **OPTIONS, max_distance=distance)
        selection = again.table("adversary_validation")
        imposed[selection.loc[selection["chosen"], "lambda"].item()] = list(trained_on)
        trained_on.clear()
    assert len(imposed) == 2
    for weight, seeds in imposed.items():
        stored = DiagnosisFolder(copied)
        stored.read()
        expected = stored.read_table(f"adversary-{weight:g}-0-train", "outputs")["tokens"].to_pylist()
        assert len(seeds) == OPTIONS["seeds"]
        for weights_of_seed in seeds:
            assert all(list(mine) == theirs for mine, theirs in zip(weights_of_seed, expected, strict=True))


def test_a_diagnosis_of_other_settings_is_refused(copied, base):
    with pytest.raises(InputError, match="epochs is 3, and was 2") as refused:
        diagnose(base[0], DATA, base[1], output_dir=copied, **OPTIONS | {"training": {**SETTINGS, "epochs": 3}})
    assert refused.value.code == "other-run"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seeds": 1}, "seeds"),
        ({"lambdas": (0.1, -1)}, "lambdas"),
        ({"lambdas": ()}, "lambdas"),
        ({"tests": ["unifrom"]}, "tests"),
        ({"max_distance": 0}, "max_distance"),
        ({"training": {"epoch": 3}}, "training"),
        ({"training": {"learning_rate": -1.0}}, "learning_rate"),
        ({"label_column": None}, "label_column"),
    ],
)
def test_bad_options_are_refused_before_any_work(base, tmp_path, monkeypatch, options, words):
    no_training(monkeypatch)
    with pytest.raises(InputError, match=words):
        diagnose(base[0], DATA, base[1], output_dir=tmp_path / "d", **OPTIONS | options)
    assert not (tmp_path / "d").exists()


def test_models_that_cannot_be_trained_again_or_have_no_attention_are_refused(tmp_path):
    tokenizer = af.models.WordTokenizer.train(["a fine film"], min_count=1)

    class Bag(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.EmbeddingBag(len(tokenizer), 2)

        def forward(self, input_ids, attention_mask=None):
            return self.words(input_ids)

    with pytest.raises((UnsupportedModelError, InputError)):
        diagnose(Bag(), DATA, tokenizer, output_dir=tmp_path / "d", quiet=True)
    assert not (tmp_path / "d").exists()


def test_fresh_models_share_nothing_with_the_diagnosed_one(base):
    retraining = Retraining(base[0], base[1])
    first, again, other = (retraining.fresh(seed) for seed in (0, 0, 1))
    for name, value in first.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])
    assert not torch.equal(first.classifier.weight, other.classifier.weight)
    assert not np.allclose(first.classifier.weight.detach(), base[0].classifier.weight.detach())
