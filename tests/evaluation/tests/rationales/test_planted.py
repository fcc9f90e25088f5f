"""From data to figures, on models made by hand whose deciding words are known."""

import math
import random

import pytest
import torch

import attnfaith as af

FINE, DULL = ("fine", "superb", "lovely"), ("dull", "grim", "stale")
REST = "the film plot cast was seen today by them with some music and light".split()


def corpus(count, seed=0):
    """Texts of which one or two words decide; these are their rationale."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        label = draw.randrange(2)
        words = draw.choices(REST, k=draw.randint(8, 20))
        for index in draw.sample(range(len(words)), draw.randint(1, 2)):
            words[index] = draw.choice((DULL, FINE)[label])
        marks = [int(word in FINE + DULL) for word in words]
        rows.append({"text": " ".join(words), "label": label, "marks": marks})
    return rows


def flan(*, attends):
    """A FLAN without encoder that decides by the words above; its attention finds them, or is uniform and ignored."""
    tokenizer = af.models.WordTokenizer.train([" ".join((*FINE, *DULL, *REST))], min_count=1)
    model = af.models.from_preset("FLANnoenc", num_labels=2, tokenizer=tokenizer, embedding_size=4).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for push, words in ((6.0, FINE), (-6.0, DULL)):
            for word in words:
                vector = model.get_input_embeddings().weight[tokenizer.convert_tokens_to_ids(word)]
                vector[0], vector[1] = push, 1.0
        model.classifier.weight[1, 0] = 1.0
        if attends:
            model.attention.project.weight[0, 1] = 2.0
            model.attention.context.weight[0, 0] = 4.0
    return model, tokenizer


@pytest.fixture(scope="module", params=[True, False], ids=["attends", "ignores"])
def judged(request):
    results = af.Evaluator(*flan(attends=request.param)).compute(
        corpus(60), rationale_column="marks", tests=["rationales"], level="both", n_resamples=300, quiet=True
    )
    return request.param, results


def figures(results, level="attention"):
    summary = results.summary()
    of_attention = summary[(summary.erase_level == level) & (summary.ranking_level.isin(["attention", ""]))]
    return of_attention.set_index(["figure", "ranking"])


def test_gradient_x_attention_finds_the_deciding_words_in_both(judged):
    _, results = judged
    result = figures(results)
    assert result.value["auprc", "gradient_x_attention"] == pytest.approx(1)
    gap = result.loc[("comprehensiveness_difference", "gradient_x_attention")]
    assert gap.other == "attention/random"
    assert gap.low > 0.05
    assert result.high["sufficiency_difference", "gradient_x_attention"] < -0.05
    assert result.low["auprc_difference", "gradient_x_attention"] > 0.5


def test_attention_does_where_it_decides_and_not_where_it_is_ignored(judged):
    attends, results = judged
    result = figures(results)
    share = result.value["rationale_share", ""]
    assert 0.05 < share < 0.2
    assert result.value["top_share", ""] == pytest.approx(share)
    gap = result.loc[("comprehensiveness_difference", "attention")]
    if attends:
        assert result.value["auprc", "attention"] == pytest.approx(1)
        assert gap.low > 0.05
        assert result.low["token_f1", "attention"] > 0.7
        assert result.low["iou_f1", "attention"] > 0.4
    else:  # ties all along: the share of the marked words, text by text
        assert result.value["auprc", "attention"] < 0.2
        assert gap.low < 0 < gap.high
        assert result.high["token_f1", "attention"] < 0.4
    chance = result.loc[("auprc", "random")]
    assert chance.low - 0.1 < share < chance.high


def test_sentences(judged):
    attends, results = judged
    message = str(results)
    told = "more than a random order's" if attends else "not clearly different from a random order's"
    assert told in message
    assert len(results.verdict.parts["rationales"]) in (2, 3)
    for trap in ("nan", "inf ", "None"):
        assert trap not in message


def test_the_run_can_be_saved_drawn_and_sliced(judged, tmp_path):
    _, results = judged
    loaded = af.load_results(results.save(tmp_path / "run"))
    assert loaded.tests == {"rationales": {"shares": [0.01, 0.05, 0.1, 0.2, 0.5], "top": None, "form": None, "soft": 0}}
    assert loaded.summary().equals(results.summary())
    assert loaded.manifest["run"]["columns"]["rationale"] == "marks"
    for kind in ("curves", "agreement"):
        loaded.plot("rationales", kind=kind, path=tmp_path / f"{kind}.png")
        assert (tmp_path / f"{kind}.png").stat().st_size > 10_000
    by = loaded.summary(by="class")
    assert len(set(by["slice"])) == 2
    assert set(by.figure) >= {"auprc", "token_f1", "iou_f1", "comprehensiveness", "top_share"}
    top = set(by[by.figure == "top_share"].value)
    whole = loaded.summary()
    assert len(top) == len(set(whole[whole.figure == "top_share"].value))  # of all texts, in every part


def test_runs_are_compared_by_what_hangs_on_no_option(tmp_path):
    runs = [
        af.Evaluator(*flan(attends=attends)).compute(
            corpus(30), rationale_column="marks", tests=["rationales"], rankings=["attention"], quiet=True
        )
        for attends in (True, False)
    ]
    from attnfaith.evaluation.comparison import compare

    result = compare(*(run.tables for run in runs), paired=True, n_resamples=200)
    of_attention = result[(result.test == "rationales") & (result.ranking == "attention")].set_index("figure")
    assert set(of_attention.index) == {"comprehensiveness", "sufficiency", "auprc", "undefined_scores"}
    assert of_attention.high["auprc"] < -0.5
    assert of_attention.b["auprc"] < of_attention.a["auprc"] == pytest.approx(1)


def test_without_marks_there_are_no_figures_of_them():
    results = af.Evaluator(*flan(attends=True)).compute(
        corpus(10), tests=["rationales"], rankings=["attention"], n_resamples=20, quiet=True
    )
    table, summary = results.table("rationales"), results.summary()
    assert table[["auprc", "order", "rationale", "unread"]].isna().all(axis=None)
    assert not set(summary.figure) & {"auprc", "token_f1", "iou_f1", "rationale_share", "without_rationale"}
    assert "People marked" not in str(results)
    assert "names the column" in results.plot("rationales", kind="agreement").axes[0].texts[0].get_text()


def test_texts_without_marks_are_counted_and_left_out():
    rows = corpus(12)
    for number in (3, 4):
        rows[number]["marks"] = None
    rows[5]["marks"] = [0] * len(rows[5]["marks"])
    rows[6]["marks"] = [1] * len(rows[6]["marks"])
    results = af.Evaluator(*flan(attends=True)).compute(
        rows, rationale_column="marks", tests=["rationales"], rankings=["attention"], n_resamples=20, quiet=True
    )
    result = figures(results)
    assert result.value["without_rationale", ""] == 3
    assert result.value["whole_rationale", ""] == 1
    assert result.texts["auprc", "attention"] == 8
    assert result.texts["token_f1", "attention"] == 9
    assert result.note["auprc", "attention"] == "without 3 texts in which nothing is marked"
    marked = [sum(row["marks"]) for row in rows if row["marks"] is not None]
    words = [len(row["marks"]) for row in rows if row["marks"] is not None]
    assert result.value["rationale_share", ""] == pytest.approx(sum(marked) / sum(words))
    assert result.texts["rationale_share", ""] == 10
    assert not math.isnan(result.low["iou_f1", "attention"])


def test_options_change_what_they_say():
    rows = corpus(20)
    tests = [af.tests.Rationales(shares=(0.25, 1.0), top=0.5)]
    results = af.Evaluator(*flan(attends=True)).compute(
        rows, rationale_column="marks", tests=tests, rankings=["attention"], n_resamples=20, quiet=True
    )
    result = figures(results)
    assert result.value["top_share", ""] == 0.5
    assert result.note["top_share", ""] == "as asked"
    assert {name for name, _ in result.index if "_at_" in name} == {
        f"{measure}_at_{share}%" for measure in ("comprehensiveness", "sufficiency") for share in (25, 100)
    }
    assert result.value["comprehensiveness_at_100%", "attention"] == pytest.approx(result.value["all_erased", ""])
    assert result.value["sufficiency_at_100%", "attention"] == pytest.approx(0, abs=1e-12)
