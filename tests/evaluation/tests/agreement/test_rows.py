"""The agreement test: rows against scipy pair by pair, which pairs there are, planted truth, and end to end."""

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

import attnfaith as af
from attnfaith.errors import InputError
from attnfaith.evaluation.rankings import Ranking
from attnfaith.evaluation.tests.agreement.test import COLUMNS, Agreement
from tests.helpers.commands import run
from tests.helpers.comparing import inputs_of
from tests.helpers.labelled_models import flipping_model
from tests.helpers.removal_batches import LENGTHS, SIZES, batch_of, model_of, one_of, ranked, slowly
from tests.helpers.slow_erasure import decided
from tests.helpers.summaries import summarised

FLAN = {"attention": ranked("attention/random", "attention/gradient", "attention/gradient_x_attention")}
BOTH = {
    "attention": ranked("attention/random", "attention/attention", "attention/gradient"),
    "input": ranked("input/random", "input/attention", "input/gradient", "input/omission", "attention/gradient"),
}
MEASURES = ["input/gradient_attention_fixed", "input/leave_one_out"]


def rows_of(columns):
    result = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    names = ("text_id", "level", "ranking_level", "ranking", "other_level", "other")
    table = {tuple(row[name] for name in names): row for row in result}
    assert len(table) == len(result)
    return table


def levelled(line):
    """Scores as whole numbers; neighbours that differ by rounding only are the same."""
    result, number, before = {}, 0, None
    for value in sorted(value for value in line if not math.isnan(value)):
        number += before is not None and not math.isclose(value, before, rel_tol=5e-12, abs_tol=0.0)
        result[value], before = number, value
    return [result.get(value, math.nan) for value in line]


def first(line, items, count):
    return set(sorted(items, key=lambda index: (-line[index], index))[:count])


def assert_rows(batch, rows, top):
    """Every row is what scipy says of the two rankings' scores, on the items that both of them score."""
    compared, undefined = 0, 0
    for (number, level, *names), row in rows.items():
        text = [entry.number for entry in batch.rows].index(number)
        mask = batch.capture.mask[text] if level == "attention" else batch.inputs["attention_mask"][text].bool()
        special = batch.special_items[text] if level == "attention" else batch.special[text]
        affine = batch.config.cut.adapter.mechanism == "pooled"
        if batch.config.special_tokens == "protect" or (affine and level == "input"):
            mask = mask & ~special
        scores = [batch.scores(Ranking(name, at), level)[text].tolist() for at, name in (names[:2], names[2:])]
        items = [
            index for index in mask.nonzero().flatten().tolist() if not any(math.isnan(line[index]) for line in scores)
        ]
        left, right = (np.array(levelled(line))[items] for line in scores)
        assert row["items"] == len(items)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            known = len(items) > 1
            tau = stats.kendalltau(left, right) if known else None
            rho = stats.spearmanr(left, right).statistic if known else math.nan
        expected = (tau.statistic, tau.pvalue, rho) if known else (math.nan,) * 3
        assert (row["tau"], row["p"], row["spearman"]) == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True)
        count = min(len(items), top if top >= 1 else max(1, math.ceil(round(top * len(items), 9))))
        common = len(first(scores[0], items, count) & first(scores[1], items, count)) / count if count else math.nan
        assert row["overlap"] == pytest.approx(common, nan_ok=True)
        assert row["prediction"] == decided(batch.config.decision.kind, batch.logits[text].tolist())
        compared += not math.isnan(row["tau"])
        undefined += math.isnan(row["tau"])
    assert compared > 50
    return undefined


@pytest.mark.parametrize("kind", list(SIZES))
@pytest.mark.parametrize("family", ["FLANrnn", "bert", *slowly("HANrnn", "llama", "FLANnoenc")])
def test_rows_are_what_scipy_says_of_each_pair(family, kind):
    rankings = FLAN if family.startswith("FLAN") else BOTH
    if family.startswith("HAN"):
        rankings = BOTH | {"input": BOTH["input"][:-1]}
    batch = batch_of(family, kind, rankings=rankings, lengths=(3, *LENGTHS))
    columns = Agreement(top=2).run(batch)
    assert list(columns) == [name for name, _ in COLUMNS]
    assert_rows(batch, rows_of(columns), 2)


@pytest.mark.parametrize("top", [1, 0.1, 0.5, 1000])
def test_the_first_items_are_a_number_or_a_share(top):
    batch = batch_of("bert", rankings=BOTH)
    assert_rows(batch, rows_of(Agreement(top=top).run(batch)), top)


def test_protected_tokens_are_not_compared():
    batch = batch_of("bert", rankings=BOTH, special_tokens="protect")
    rows = rows_of(Agreement(top=3).run(batch))
    assert_rows(batch, rows, 3)
    free = (batch.inputs["attention_mask"].bool() & ~batch.special).sum(1).tolist()
    assert {row["items"] for key, row in rows.items() if key[0] == 0} == {free[0]}


def test_ends_of_sentences_are_no_words():
    batch = batch_of("HANrnn", rankings=BOTH | {"input": BOTH["input"][:-1]})
    between = batch.special & batch.inputs["attention_mask"].bool()
    assert between.any()
    words = (batch.inputs["attention_mask"].bool() & ~between).sum(1).tolist()
    rows = rows_of(Agreement().run(batch))
    assert_rows(batch, rows, 0.1)
    assert {key[0]: row["items"] for key, row in rows.items() if key[1] == "input"} == dict(enumerate(words))


def pairs_of(columns, level):
    rows = rows_of(columns)
    return [(f"{key[2]}/{key[3]}", f"{key[4]}/{key[5]}") for key in rows if key[:2] == (0, level)]


def test_which_pairs_there_are():
    columns = Agreement().run(batch_of("FLANrnn", rankings=FLAN))
    names = ["attention/attention", *MEASURES, *(str(item) for item in FLAN["attention"])]
    assert pairs_of(columns, "attention") == list(itertools.combinations(names, 2))
    assert set(columns["level"]) == {"attention"}
    only = Agreement(pairs="attention").run(batch_of("FLANrnn", rankings=FLAN))
    assert pairs_of(only, "attention") == [(names[0], name) for name in names[1:]]
    whole = rows_of(columns)
    assert all(whole[key] == row for key, row in rows_of(only).items())


def test_tokens_are_compared_once_and_sentences_by_themselves():
    bert = Agreement().run(batch_of("bert", rankings=BOTH))
    names = ["input/attention", *MEASURES, "input/random", "input/gradient", "input/omission", "attention/gradient"]
    assert set(bert["level"]) == {"input"}
    assert pairs_of(bert, "input") == list(itertools.combinations(names, 2))
    han = Agreement().run(batch_of("HANrnn", rankings=BOTH | {"input": BOTH["input"][:-1]}))
    sentences = ["attention/attention", "attention/random", "attention/gradient"]
    assert pairs_of(han, "attention") == list(itertools.combinations(sentences, 2))
    assert pairs_of(han, "input") == list(itertools.combinations(names[:-1], 2))
    alone = Agreement().run(batch_of("HANrnn", rankings={"attention": BOTH["attention"]}))
    assert set(alone["level"]) == {"attention"}


def test_rankings_a_model_does_not_have_are_left_out_with_a_note():
    torch.manual_seed(0)
    model = af.models.from_preset("FLANnoenc", num_labels=2, vocab_size=64, normaliser="sparsemax").double()
    inputs = inputs_of(model, lengths=LENGTHS, seed=2)
    batch = batch_of("FLANnoenc", cut=af.cut(model), inputs=inputs, rankings=FLAN)
    with pytest.warns(UserWarning, match=r"leaves out the ranking input/gradient_attention_fixed: .*softmax"):
        columns = Agreement().run(batch)
    assert {"leave_one_out"} <= set(columns["other"])
    assert "gradient_attention_fixed" not in {*columns["ranking"], *columns["other"]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        Agreement().run(batch)


def test_texts_with_fewer_than_two_items_have_no_row():
    ids = torch.tensor([[5, 0, 0], [6, 7, 8], [9, 9, 0]])
    batch = batch_of("FLANrnn", rankings=FLAN, inputs={"input_ids": ids, "attention_mask": (ids > 0).long()})
    assert set(Agreement().run(batch)["text_id"]) == {1, 2}


@pytest.mark.parametrize("family", ["FLANrnn", "HANrnn", "bert", "llama"])
def test_batches_and_padding_change_nothing(family):
    rankings = FLAN if family.startswith("FLAN") else BOTH
    if family.startswith("HAN"):
        rankings = BOTH | {"input": BOTH["input"][:-1]}
    numbers = [40, 7, 19, 3, 100, 12, 55, 8]
    inputs = inputs_of(model_of(family), lengths=LENGTHS, seed=2)
    together = rows_of(Agreement().run(batch_of(family, rankings=rankings, numbers=numbers, inputs=inputs)))
    apart = {}
    for text in reversed(range(len(numbers))):
        item = batch_of(family, rankings=rankings, numbers=[numbers[text]], inputs=one_of(inputs, text))
        apart |= rows_of(Agreement().run(item))
    assert together.keys() == apart.keys()
    for key, row in together.items():
        for name, value in row.items():
            assert (
                value == pytest.approx(apart[key][name], abs=1e-9, nan_ok=True) if value != apart[key][name] else True
            )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pairs": "some"}, "'all' or 'attention'"),
        ({"top": 0}, "top to be a share between 0 and 1 or a whole number of at least 1"),
        ({"top": 1.0}, "top to be a share between 0 and 1 or a whole number of at least 1"),
        ({"top": -0.1}, "top to be a share between 0 and 1 or a whole number of at least 1"),
        ({"top": True}, "top to be a share between 0 and 1 or a whole number of at least 1"),
        ({"alpha": 0}, "alpha to be between 0 and 1"),
        ({"alpha": 1.0}, "alpha to be between 0 and 1"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Agreement(**options)


def planted(attended):
    """A FLAN that decides by direction 1 of its words, and attends by the direction given; None for uniformly."""
    torch.manual_seed(0)
    model = af.models.from_preset("FLANnoenc", num_labels=2, vocab_size=64, embedding_size=8, attention_size=4)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.embeddings.weight.uniform_(0, 1)
        model.attention.context.weight[0, 0] = 4.0
        if attended is not None:
            model.attention.project.weight[0, attended] = 1.0
        model.classifier.weight[1, 1] = 2.0
    return model.double().eval()


def summary_for(attended):
    model = planted(attended)
    torch.manual_seed(1)
    inputs = {"input_ids": torch.randint(5, 64, (40, 12)), "attention_mask": torch.ones(40, 12, dtype=torch.long)}
    cut = af.cut(planted(1))  # a uniform attention passes no self-check by itself
    cut.model.load_state_dict(model.state_dict())
    table = pd.DataFrame(Agreement().run(batch_of("planted", cut=cut, inputs=inputs, rankings=FLAN)))
    texts = pd.DataFrame({"text_id": range(40), "aside": None})
    result = summarised("agreement", table, texts, n_resamples=99)
    result = result[(result.ranking == "attention")]
    return result.set_index(["other", "figure"]).value


def test_an_attention_that_decides_agrees_and_one_that_does_not_agrees_less():
    decides, other = summary_for(1), summary_for(3)
    for name in ("attention/gradient", "attention/gradient_x_attention", "input/gradient_attention_fixed"):
        assert decides[name, "tau"] > other[name, "tau"] + 0.2, name
        assert decides[name, "significant"] > other[name, "significant"]
    assert decides["attention/gradient", "tau"] > 0.95  # it weighs words by what they say
    assert abs(other["attention/gradient", "tau"]) < 0.2
    assert abs(decides["attention/random", "tau"]) < 0.2


def test_a_uniform_attention_agrees_with_nothing_and_that_is_counted():
    result = summary_for(None)
    others = {name for name, _ in result.index}
    assert len(others) == 5
    for name in others:
        assert result[name, "undefined"] == 1
        for figure in ("tau", "tau_sd", "significant", "spearman"):
            assert math.isnan(result[name, figure])


WORDS = "good bad fine dull long short film plot cast story very not quite never the a".split()


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """A FLAN's run, its model's folder, and its data."""
    folder = tmp_path_factory.mktemp("agreement")
    model, tokenizer = flipping_model("FLANrnn", WORDS, dtype=torch.float32)
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    sizes = torch.randint(1, 12, (60,)).tolist()
    texts = [" ".join(WORDS[index] for index in torch.randint(16, (size,)).tolist()) for size in sizes]
    data = pd.DataFrame({"text": texts, "label": [number % 3 for number in range(60)]})
    data.to_csv(folder / "data.csv", index=False)
    evaluator = af.Evaluator(model, tokenizer)
    results = evaluator.compute(data, tests=["agreement"], n_resamples=99, quiet=True)
    return folder, results, evaluator, data


def test_from_end_to_end(evaluated, tmp_path):
    _, results, _, data = evaluated
    short = data.text.str.split().str.len() < 2
    table, summary = results.table("agreement"), results.summary()
    assert table.text_id.nunique() == (~short).sum()
    assert set(summary.columns) == set(results.summary(by="class").columns)
    pairs = summary[summary.figure == "tau"]
    assert len(pairs) == 10 * 9 / 2
    assert summary.query("figure == 'too_short'").value.tolist() == [short.sum()]
    classes = results.summary(by="class").query("figure == 'tau' and other == 'input/leave_one_out'")
    assert set(classes.slice) <= {"class=0", "class=1", "class=2"}
    assert any("Kendall's tau" in sentence for sentence in results.verdict.parts["agreement"])
    assert "leave-one-out" in str(results)
    again = af.load_results(results.save(tmp_path / "kept"))
    pd.testing.assert_frame_equal(again.summary(), summary)
    assert again.tests == {"agreement": {"pairs": "all", "top": 0.1, "alpha": 0.05}}
    for kind in (None, "matrix", "distributions"):
        again.plot("agreement", kind=kind, path=tmp_path / "figure.png")
        assert (tmp_path / "figure.png").stat().st_size > 5000
    assert str(again) == str(results)


def test_batches_of_a_run_change_nothing(evaluated):
    _, results, evaluator, data = evaluated
    other = evaluator.compute(data, tests=["agreement"], n_resamples=99, quiet=True, batch_size=5)
    pd.testing.assert_frame_equal(other.table("agreement"), results.table("agreement"), rtol=1e-4, atol=1e-9)


def test_erasure_costs_and_says_what_it_did(evaluated):
    """The two measures are rankings of this test; the erasure test has them only where they are named."""
    _, _, evaluator, data = evaluated
    both = evaluator.compute(data, tests=["erasure", "agreement"], n_resamples=99, quiet=True)
    assert not {"gradient_attention_fixed", "leave_one_out"} & set(both.table("erasure").ranking)
    named = evaluator.compute(data, rankings=["input/leave_one_out"], tests=["erasure"], n_resamples=99, quiet=True)
    assert set(named.table("erasure").ranking) == {"random", "leave_one_out"}


def test_two_runs_are_compared_by_what_attention_agrees_with(evaluated):
    from attnfaith.evaluation.comparison import compare

    _, results, _, _ = evaluated
    tables = {name: results.table(name) for name in ("texts", "agreement")}
    result = compare(tables, tables, paired=True, n_resamples=99)
    result = result[result.test == "agreement"]
    assert set(result.figure) >= {"tau:input/leave_one_out", "tau:attention/gradient"}
    assert (result.difference == 0).all()
    assert set(result.ranking) == {"attention"}


def test_the_command_line(evaluated, tmp_path):
    folder, _, _, _ = evaluated
    given = [folder / "model", folder / "data.csv", "--output", tmp_path / "run", "--tests", "agreement"]
    options = ["--option", "agreement.top=3", "--option", "agreement.pairs=attention"]
    done = run("evaluate", *given, *options)
    assert done.exit_code == 0, done.output
    assert "mean Kendall's tau" in done.output
    results = af.load_results(tmp_path / "run")
    assert results.tests == {"agreement": {"pairs": "attention", "top": 3, "alpha": 0.05}}
    assert set(results.table("agreement").ranking) == {"attention"}
    results.plot("agreement", path=tmp_path / "figure.png")
