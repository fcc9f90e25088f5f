"""The demo from end to end: what stands in its report is what its tables say, and its folder is its own."""

import json
import math

import numpy as np
import pandas as pd
import pytest
import torch

import attnfaith as af
from attnfaith.demo.corpus import reviews
from attnfaith.demo.output_folder import demo_folder
from attnfaith.demo.pipeline import planted_demo, run_demo
from attnfaith.demo.planted import Planted, agreement_of, agreement_table
from attnfaith.demo.steps import Plan
from attnfaith.errors import InputError
from attnfaith.estimates.lookup import percent
from tests.helpers.reading_pages import Page

pytestmark = pytest.mark.examples
FEW = Plan(train=160, validation=20, held_out=30, epochs=3, learning_rate=1e-2)
KINDS = ("flan", "han")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A demo on few reviews: its folder, and what it told."""
    folder = tmp_path_factory.mktemp("demo") / "demo"
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        told = planted_demo(folder, seed=3, quiet=True, plan=FEW)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    return folder, told


def page_of(path):
    return Page(path.read_text(encoding="utf-8"))


def found_in(summary, figure, ranking):
    rows = summary[(summary["figure"] == figure) & (summary["ranking"] == ranking) & summary["other"].isna()]
    assert len(rows) == 1
    return rows.iloc[0]


def test_what_is_left_behind(small):
    folder, _ = small
    made = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    expected = {"flan.html", "han.html", "demo.json", "data/reviews.jsonl"}
    for name in KINDS:
        expected |= {f"figures/{name}-{test}.png" for test in ("erasure", "single_weight")}
        expected |= {f"tables/{name}-{table}.csv" for table in ("summary", "planted")}
        expected |= {f"models/{name}/{file}" for file in ("config.json", "model.safetensors", "tokenizer.json")}
    assert expected <= made
    assert all((folder / path).read_bytes()[:4] == b"\x89PNG" for path in made if path.endswith(".png"))
    kept = [json.loads(line) for line in (folder / "data" / "reviews.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["text"] for row in kept] == [row["text"] for row in reviews(30, seed=3)]


@pytest.mark.parametrize("name", KINDS)
def test_runs_and_models_can_be_loaded(small, name):
    folder, _ = small
    results = af.load_results(folder / "runs" / name)
    assert str(results.verdict) == str(results)
    table = pd.read_csv(folder / "tables" / f"{name}-summary.csv")
    wanted = results.summary()
    np.testing.assert_allclose(table["value"], wanted["value"].astype(float))
    assert table["ranking"].fillna("").tolist() == wanted["ranking"].tolist()
    explanation = af.Attributor(str(folder / "models" / name), method="attention")("This kettle is not bad at all.")
    assert explanation.prediction.endswith(("star", "stars"))


@pytest.mark.parametrize("name", KINDS)
def test_the_report_says_what_the_tables_say(small, name):
    folder, told = small
    page = page_of(folder / f"{name}.html")
    summary = pd.read_csv(folder / "tables" / f"{name}-summary.csv")
    agreed = pd.read_csv(folder / "tables" / f"{name}-planted.csv").set_index("ranking")
    row = agreed.loc["attention"]
    assert f"{percent(row.agreement, row.low, row.high)} are decisive; by chance, " in page.text
    row = found_in(summary, "mean_fraction", "planted")
    assert f"the decision flips after {percent(row.value, row.low, row.high)} of all" in page.text
    results = af.load_results(folder / "runs" / name)
    assert all(" ".join(sentence.split()) in page.text for sentence in results.verdict.sentences)
    right = percent(float(results.table("texts")["correct"].mean()))
    assert any(f"{name.upper()}: right on {right}" in line and results.verdict.label in line for line in told)
    assert f"  {(folder / f'{name}.html').resolve().as_uri()}" in told


@pytest.mark.parametrize("name", KINDS)
def test_agreement_is_what_counting_says(small, name):
    """A slow twin: rank by hand, find the decisive words and sentences in the text, count."""
    folder, _ = small
    table = pd.read_csv(folder / "tables" / f"{name}-planted.csv").set_index("ranking")
    right = af.load_results(folder / "runs" / name).table("texts")["correct"].tolist()
    attributor = af.Attributor(str(folder / "models" / name), method="attention")
    shares, chances = [], []
    for review, counts in zip(reviews(30, seed=3), right, strict=True):
        item = attributor(review["text"])
        sentences = [(piece.start, piece.end) for piece in item.sentences()]
        pieces = sentences if name == "han" else item.encoded.offsets
        decisive = [any(start < stop and begin < end for begin, stop in review["ranges"]) for start, end in pieces]
        number = sum(decisive)
        if not counts or number == len(decisive):
            continue
        first = sorted(range(len(decisive)), key=lambda index, entry=item: (-entry.scores[index], index))[:number]
        shares.append(sum(decisive[index] for index in first) / number)
        chances.append(number / len(decisive))
    assert table.loc["attention"].texts == len(shares) > 0
    assert math.isclose(table.loc["attention"].agreement, np.mean(shares))
    assert math.isclose(table.loc["by chance"].agreement, np.mean(chances))


@pytest.mark.parametrize("name", KINDS)
def test_the_planted_words_are_erased_first(small, name):
    """Up to the number of decisive items the mass that is gone is theirs."""
    folder, _ = small
    results = af.load_results(folder / "runs" / name)
    assert "yours/planted" in results.manifest["run"]["rankings"]["attention"]
    table = results.table("erasure").set_index(["ranking", "text_id"])
    attributor = af.Attributor(str(folder / "models" / name), method="attention")
    planted, checked = Planted(reviews(30, seed=3)), 0
    for number, review in enumerate(reviews(30, seed=3)):
        row = table.loc[("planted", number)]
        if row.censored:
            continue
        item = attributor(review["text"])
        order = sorted(range(len(item.scores)), key=lambda index, entry=item: (-planted(entry.encoded)[index], index))
        assert math.isclose(row.mass, sum(item.scores[index] for index in order[: int(row.removed)]), abs_tol=1e-5)
        checked += 1
    assert checked > 3


def test_agreement_laws():
    assert agreement_of([0, 1, 2], [1.0, 0.0, 0.0]) == 1
    assert agreement_of([2, 1, 0], [1.0, 0.0, 0.0]) == 0
    assert math.isnan(agreement_of([0, 1], [1.0, 1.0]))
    assert math.isnan(agreement_of([0, 1], [0.0, 0.0]))
    with pytest.raises(InputError, match="none of the reviews"):
        Planted([])(af.Attributor(*_tiny(), method="attention")("A good film.").encoded)


def test_agreement_of_no_text_is_unknown():
    rows = reviews(3)
    explained = {"attention": af.Attributor(*_tiny(), method="attention")([row["text"] for row in rows])}
    table = agreement_table(explained, Planted(rows), counted=[False] * 3, n_resamples=20)
    assert table["agreement"].isna().all()
    assert table["texts"].tolist() == [0, 0]


def _tiny():
    tokenizer = af.models.WordTokenizer.train([row["text"] for row in reviews(20)], min_count=1)
    return af.models.from_preset("FLANnoenc", num_labels=5, tokenizer=tokenizer, embedding_size=8), tokenizer


def test_a_foreign_folder_is_refused(tmp_path, small):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"thesis\.tex"):
        run_demo(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]
    (tmp_path / "demo.json").write_text('{"another": "program"}')
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "raw.csv").write_text("1")
    with pytest.raises(InputError, match="no demo of attnfaith"):
        run_demo(tmp_path)
    assert (tmp_path / "data" / "raw.csv").exists()
    with pytest.raises(InputError, match="is a file"):
        run_demo(tmp_path / "thesis.tex")


def test_an_earlier_demo_is_replaced(tmp_path):
    demo, elsewhere = tmp_path / "demo", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    for _ in range(2):
        with demo_folder(demo, {"seed": 1}) as folder:
            assert not (folder / "report.html").exists()
            assert not any((folder / "runs").iterdir())
            (folder / "runs" / "rows").touch()
            (folder / "report.html").touch()
        assert (demo / "report.html").exists()
        assert not (demo / "tables").exists()  # empty
        (demo / "notes.txt").touch()  # a user's own, among ours
    (demo / "figures").symlink_to(elsewhere)
    with demo_folder(demo, {}):
        pass
    assert sorted(entry.name for entry in demo.iterdir()) == ["demo.json", "notes.txt"]
    assert (elsewhere / "kept").exists()


def test_an_earlier_demo_outlives_a_mistake(tmp_path, small):
    folder, _ = small
    options = {"model": str(folder / "models" / "flan"), "quiet": True}
    with pytest.raises(InputError, match="revue"):
        run_demo(tmp_path, data=[{"review": "Fine."}], text_column="revue", **options)
    assert not any(tmp_path.iterdir())
    run_demo(tmp_path, data=[{"review": "A fine kettle."}] * 3, text_column="review", label_column=None, **options)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert tmp_path / "report.html" in before
    with pytest.raises(InputError, match="revue"):
        run_demo(tmp_path, data=[{"review": "Fine."}], text_column="revue", **options)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert not (tmp_path / ".earlier").exists()


def _interrupted(path, resumed):
    with demo_folder(path, {"seed": 1}, resume=resumed) as folder:
        (folder / "runs" / "rows").touch()
        (folder / "report.html").touch()
        raise KeyboardInterrupt


@pytest.mark.parametrize(("then", "resumed", "stays"), [(1, True, True), (2, True, False), (1, False, False)])
def test_an_interrupted_demo_resumes_with_the_same_arguments(then, resumed, stays, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        _interrupted(tmp_path, resumed)
    with demo_folder(tmp_path, {"seed": then}, resume=resumed) as folder:
        assert (folder / "runs" / "rows").exists() == stays
        assert not (folder / "report.html").exists()


def test_a_model_and_data_of_the_user(small, tmp_path, capsys):
    folder, _ = small
    model, data = str(folder / "models" / "flan"), str(folder / "data" / "reviews.jsonl")
    for _ in range(2):  # the second replaces the first
        assert run_demo(tmp_path / "own", model=model, data=data, quiet=True) == tmp_path / "own"
    told = capsys.readouterr().out
    results = af.load_results(tmp_path / "own" / "runs" / "model")
    report = tmp_path / "own" / "report.html"
    assert results.verdict.label in told
    assert report.as_uri() in told
    page = page_of(report)
    assert all(" ".join(sentence.split()) in page.text for sentence in results.verdict.sentences)
    assert "planted" not in page.text
    row = found_in(pd.read_csv(tmp_path / "own" / "tables" / "model-summary.csv"), "mean_fraction", "attention")
    assert percent(row.value, row.low, row.high) in page.one("section", id="test-erasure").text
    assert not (tmp_path / "own" / "models").exists()
    assert (tmp_path / "own" / "figures" / "model-erasure.png").exists()


@pytest.mark.filterwarnings("ignore:The integrated gradients")
def test_a_transformer_of_the_user_without_labels(tmp_path):
    from tests.helpers.commands import save_bert, texts

    data = pd.DataFrame({"review": texts(12)})
    folder = run_demo(
        tmp_path / "own",
        model=str(save_bert(tmp_path / "bert")),
        data=data,
        text_column="review",
        label_column=None,
        quiet=True,
    )
    page = page_of(folder / "report.html")
    assert "Texts read12" in page.text
    assert "Estimates at the final attention" in page.text
    assert "Estimates at the input" in page.text
    assert "By whether the model is right" not in page.text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": "m"}, "together"),
        ({"data": "d"}, "together"),
        ({"seed": -1}, "seed"),
        ({"seed": True}, "seed"),
    ],
)
def test_bad_input(given, message, tmp_path):
    with pytest.raises(InputError, match=message):
        run_demo(tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_the_whole_demo(tmp_path, capsys):
    folder = run_demo(tmp_path / "demo", quiet=True)
    told = capsys.readouterr().out
    assert all((folder / f"{name}.html").as_uri() in told for name in KINDS)
    for name in KINDS:
        results = af.load_results(folder / "runs" / name)
        assert results.table("texts")["correct"].mean() > 0.93
        summary = pd.read_csv(folder / "tables" / f"{name}-summary.csv")
        taken = {
            ranking: found_in(summary, "mean_fraction", ranking).value
            for ranking in ("attention", "gradient_x_attention", "optimal", "planted", "random")
        }
        assert taken["optimal"] <= min(taken.values()) + 1e-9
        assert taken["planted"] < taken["random"]
        assert taken["attention"] < taken["random"]
        pair = summary[summary["other"] == "attention/random"].set_index(["ranking", "figure"])["value"]
        assert pair["planted", "wins"] > pair["planted", "losses"]
        assert pair["planted", "p"] < 0.01
        agreed = pd.read_csv(folder / "tables" / f"{name}-planted.csv").set_index("ranking")
        assert agreed.loc["attention"].low > 2 * agreed.loc["by chance"].agreement
        assert agreed.loc["random"].low < agreed.loc["by chance"].agreement < agreed.loc["random"].high
    flan = pd.read_csv(folder / "tables" / "flan-summary.csv")
    pair = flan[(flan["ranking"] == "gradient_x_attention") & (flan["other"] == "attention/attention")]
    pair = pair.set_index("figure")["value"]
    assert pair["wins"] > pair["losses"]
