"""The Evaluator from end to end: the same numbers however a run is cut up, and what is asked for is what is run."""

import warnings

import datasets
import numpy as np
import pandas as pd
import pytest
import torch

import attnfaith as af
from attnfaith.attribution.method import method, methods
from attnfaith.evaluation import runner as running
from attnfaith.evaluation.tests.base import tests
from tests.helpers.labelled_models import flipping_model

WORDS = "good bad fine dull long short film plot cast story very not quite never the a".split()


def sentences(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, 12, (count,), generator=generator).tolist()
    return [" ".join(WORDS[torch.randint(16, (), generator=generator)] for _ in range(size)) for size in lengths]


@pytest.fixture(scope="module")
def flan():
    return flipping_model("FLANrnn", WORDS)


@pytest.fixture(scope="module")
def rows():
    return [{"text": text, "label": number % 3} for number, text in enumerate(sentences(60))]


def evaluated(flan, data, **options):
    return af.Evaluator(*flan).compute(data, n_resamples=99, quiet=True, **options)


def same(first, other, name):
    left, right = first.table(name), other.table(name)
    pd.testing.assert_frame_equal(left, right, rtol=1e-9, atol=1e-12)


def test_rankings_are_made_only_for_tests_that_read_them(flan, rows):
    for name, kind in tests.items():
        run = evaluated(flan, rows[:12], tests=[name]).manifest["run"]
        assert bool(run["rankings"]["attention"]) == kind.ranked, name
    named = evaluated(flan, rows[:12], tests=["permutation"], rankings=["attention"]).manifest["run"]
    assert named["rankings"]["attention"] == ["attention/random", "attention/attention"]


def test_the_decisions_flip_so_that_there_is_something_to_compare(flan, rows):
    table = evaluated(flan, rows).table("erasure")
    assert 0.2 < table.censored.mean() < 0.95 or (~table.censored).sum() > 100
    assert set(table.ranking) >= {"random", "attention", "optimal"}


def test_batches_shards_and_the_form_of_the_data_change_nothing(flan, rows, monkeypatch, tmp_path):
    whole = evaluated(flan, rows)
    table = pd.DataFrame(rows)
    table.to_parquet(tmp_path / "rows.parquet")
    table.to_csv(tmp_path / "rows.csv", index=False)
    forms = {
        "one by one": (rows, {"batch_size": 1}),
        "frame": (table, {}),
        "dataset": (datasets.Dataset.from_list(rows), {"batch_size": 7}),
        "stream": (datasets.Dataset.from_list(rows).to_iterable_dataset(), {}),
        "parquet": (str(tmp_path / "rows.parquet"), {}),
        "csv": (tmp_path / "rows.csv", {}),
    }
    for form, options in forms.values():
        other = evaluated(flan, form, **options)
        for name in ("texts", "erasure", "single_weight"):
            same(whole, other, name)
    monkeypatch.setattr(af.Evaluator, "shard_size", 16)
    small = evaluated(flan, rows)
    assert small.manifest["shards"] == 4
    for name in ("texts", "erasure", "single_weight"):
        same(whole, small, name)


def test_adding_a_ranking_changes_no_other_rankings_numbers(flan, rows):
    few = evaluated(flan, rows, rankings=["attention"], tests=["erasure"]).table("erasure")
    many = evaluated(flan, rows, rankings="all", tests=["erasure"]).table("erasure")
    many = many[many.ranking.isin(["attention", "random"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(few, many)


def test_texts_that_cannot_be_read_are_set_aside_with_the_reason(flan, rows):
    given = [*rows[:4], {"text": None, "label": 0}, {"text": "   ", "label": 1}, *rows[4:10]]
    results = evaluated(flan, given)
    assert results.manifest["counts"]["rows"] == 12
    assert results.manifest["counts"]["texts"] == 10
    assert sum(results.manifest["counts"]["aside"].values()) == 2
    table = results.table()
    assert table.aside.notna().tolist() == [False] * 4 + [True, True] + [False] * 6
    assert set(results.table("erasure").text_id) <= set(table[table.aside.isna()].text_id)


def test_explaining_the_gold_class_sets_texts_without_one_aside(flan, rows):
    given = [{**row, "label": None if index % 3 == 0 else row["label"]} for index, row in enumerate(rows[:12])]
    results = evaluated(flan, given, target="gold", tests=["erasure"])
    assert results.manifest["counts"]["aside"] == {"there is no label to explain": 4}
    table = results.table("erasure")
    assert (table.target == table.gold).all()


def test_a_run_resumes_and_is_refused_with_other_arguments(flan, rows, tmp_path, monkeypatch):
    monkeypatch.setattr(af.Evaluator, "shard_size", 16)
    evaluated(flan, rows, output_dir=tmp_path / "whole")
    done = []
    complete = running.Runner._complete

    def stops(self, shard, rows, progress):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(rows[0].number)
        return complete(self, shard, rows, progress)

    monkeypatch.setattr(running.Runner, "_complete", stops)
    with pytest.raises(KeyboardInterrupt):
        evaluated(flan, rows, output_dir=tmp_path / "parts")
    with pytest.raises(af.InputError, match="not complete"):
        af.load_results(tmp_path / "parts")
    monkeypatch.setattr(running.Runner, "_complete", complete)
    evaluated(flan, rows, output_dir=tmp_path / "parts")
    files = sorted(path.relative_to(tmp_path / "whole") for path in (tmp_path / "whole").rglob("*") if path.is_file())
    assert len(files) == 1 + 5 * 4
    for path in files:
        assert (tmp_path / "whole" / path).read_bytes() == (tmp_path / "parts" / path).read_bytes(), path
    for options, what in [
        ({"seed": 1}, "seed"),
        ({"rankings": ["attention"]}, "rankings"),
        ({"level": "both"}, "in_distribution"),  # which is run by default where tokens are hidden
    ]:
        with pytest.raises(af.InputError, match=rf"other arguments: .*{what}"):
            evaluated(flan, rows, output_dir=tmp_path / "whole", **options)
    changed = [*rows[:20], {"text": "another text", "label": 0}, *rows[21:]]
    with pytest.raises(af.InputError, match="rows 16 to 31"):
        evaluated(flan, changed, output_dir=tmp_path / "whole")
    _, tokenizer = flan
    other = af.models.from_preset("FLANrnn", num_labels=3, tokenizer=tokenizer)
    with pytest.raises(af.InputError, match="model is"):
        evaluated((other, tokenizer), rows, output_dir=tmp_path / "whole")


def test_the_users_model_is_left_as_it_was(flan, rows):
    model, _ = flan
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.random.get_rng_state()
    evaluated(flan, rows[:8], level="both")
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())
    assert torch.equal(state, torch.random.get_rng_state())
    model.eval()


def test_user_explanations_are_judged_by_the_same_protocol(flan, rows):
    def backwards(encoded):
        return [-index for index in range(len(encoded.tokens))]

    given = [{**row, "forwards": [-index for index in range(len(row["text"].split()))]} for row in rows]
    results = evaluated(
        flan,
        given,
        rankings=["attention"],
        explanations={"mine": "forwards", "also mine": backwards},
        tests=["erasure"],
    )
    table = results.table("erasure").set_index(["text_id", "ranking"])
    mine, also = (table.xs(name, level="ranking") for name in ("mine", "also mine"))
    assert (mine.ranking_level == "yours").all()
    pd.testing.assert_frame_equal(mine, also)


def test_slices_need_what_they_are_made_of(flan, rows):
    results = evaluated(flan, rows, tests=["erasure"])
    by_class = results.summary(by="class")
    assert {"class=0", "class=1", "class=2"} >= set(by_class.slice) != {"all"}
    unlabelled = evaluated(flan, [{"text": row["text"]} for row in rows], tests=["erasure"])
    assert unlabelled.table().correct.isna().all()
    with pytest.raises(af.InputError, match="label"):
        unlabelled.summary(by="correct")


def test_results_can_be_saved_and_read_again(flan, rows, tmp_path):
    results = evaluated(flan, rows)
    again = af.load_results(results.save(tmp_path / "copy"))
    for name in ("texts", "erasure", "single_weight"):
        same(results, again, name)
    assert str(again) == str(results)
    assert again.same_data(results)
    pd.testing.assert_frame_equal(again.summary(), results.summary())
    with pytest.raises(af.InputError, match="no table 'erasrue'"):
        results.table("erasrue")
    for kind in ("curves", "efficiency", "wins"):
        assert results.plot("erasure", kind=kind).axes
    with pytest.raises(af.InputError, match="no figure"):
        results.plot("erasure", kind="pie")


def test_every_kind_of_decision_runs(rows):
    tokenizer = af.models.WordTokenizer.train([" ".join(WORDS)], min_count=1)
    kinds = {
        "sigmoid": ({"num_labels": 1, "problem_type": "single_label_classification"}, {}, 1),
        "multilabel": ({"num_labels": 3, "problem_type": "multi_label_classification"}, {}, [0, 2]),
        "regression": ({"num_labels": 1, "problem_type": "regression"}, {"tolerance": 0.05}, 0.5),
    }
    for kind, (config, options, label) in kinds.items():
        torch.manual_seed(0)
        model = af.models.from_preset("FLANnoenc", tokenizer=tokenizer, **config).double()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter *= 4
        data = [{"text": row["text"], "label": label} for row in rows]
        results = af.Evaluator(model, tokenizer, **options).compute(data, n_resamples=99, quiet=True)
        table = results.table("erasure")
        assert results.manifest["run"]["decision"]["kind"] == kind
        best = table[table.ranking == "optimal"].set_index("text_id")
        fewest = table[~table.marginal].groupby("text_id").removed.min().dropna()
        assert len(fewest) > 10
        assert (fewest >= best.minimum_low.reindex(fewest.index)).all()
        assert (best.removed.dropna() == best.minimum_low.dropna()).all()
        assert np.isfinite(results.table("single_weight").delta_js).all()


def test_wrong_arguments_are_refused_before_the_run(flan, rows):
    wrong = [
        ({"rankings": "attention"}, "'all' or a list"),
        ({"rankings": ["atention"]}, "attention"),
        ({"tests": "erasure"}, "Expected tests to be 'all' or a list"),
        ({"tests": ["erasrue"]}, "erasure"),
        ({"level": "words"}, "level"),
        ({"hide": "mask_token", "level": "input"}, "mask token"),
        ({"hide": "delete"}, "input level"),
        ({"special_tokens": "no"}, "special_tokens"),
        ({"target": 7}, "target"),
        ({"output": "odds"}, "output"),
        ({"confidence_level": 95}, "confidence_level"),
        ({"seed": 0.5}, "seed"),
        ({"batch_size": 0}, "batch_size"),
        ({"input_column": "txt"}, "'text'"),
        ({"explanations": {"attention": "text"}}, "has that name|list of numbers|scores"),
    ]
    for options, message in wrong:
        with pytest.raises(af.InputError, match=message):
            af.Evaluator(*flan).compute(rows, quiet=True, **options)
    with pytest.raises(af.InputError, match="tokenizer"):
        af.Evaluator(flan[0])


def test_inexact_scores_are_counted_over_all_batches_and_warned_of_once(flan, rows):
    gaps = {}

    @method("attention", "rough", has_completeness_gap=True)
    def rough(request):
        gap = torch.tensor([0.001 * number for number in request.text_ids])
        gaps.update(zip(request.text_ids, gap.tolist(), strict=True))
        return request.scores(request.capture.weights.mean(1), gap=gap, inexact=gap > 0.0105, note="what helps")

    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            evaluated(flan, rows, rankings=["rough"], batch_size=8)
    finally:
        del methods["attention", "rough"]
    large = [gap for gap in gaps.values() if gap > 0.0105]
    assert 8 < len(large) < len(gaps)
    message = [str(item.message) for item in caught if "inexact" in str(item.message)]
    assert message == [
        f"The scores of rough are inexact on {len(large)} of {len(gaps)} texts (completeness gap up to "
        f"{max(large):.2g}): what helps."
    ]


def test_warnings_of_a_method_reach_the_user(flan, rows):
    def rough(capture, cut, target):
        warnings.warn("the path is too short", stacklevel=1)
        return capture.weights.mean(1)

    af.register_method("rough", level="attention")(rough)
    try:
        with pytest.warns(UserWarning, match="the path is too short"):
            evaluated(flan, rows, rankings=["rough"])
    finally:
        del methods["attention", "rough"]


@pytest.mark.parametrize("labels", [[0, 1, 2, 1] * 3, [5, 0, 1, 2] * 3])
def test_a_model_without_configuration_on_data_with_labels(labels):
    """The number of its classes is that of its logits."""
    texts = ["a fine film", "a dull film", "fine acting", "a dull plot"] * 3
    tokenizer = af.models.WordTokenizer.train(texts, min_count=1)

    class Own(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = torch.nn.Embedding(20, 6), torch.nn.Linear(6, 3)

        def forward(self, input_ids, attention_mask):
            vectors = self.embed(input_ids)
            scores = (vectors @ vectors.transpose(1, 2)).masked_fill(attention_mask[:, None] == 0, -1e9)
            mixed = torch.softmax(scores, -1) @ vectors
            return self.head(mixed[:, 0])

    example = {"input_ids": torch.tensor([[5, 6, 7, 8]]), "attention_mask": torch.ones(1, 4, dtype=torch.long)}
    evaluator = af.Evaluator(af.cut(Own(), example=example), tokenizer)
    rows = [{"text": text, "label": label} for text, label in zip(texts, labels, strict=True)]
    if 5 in labels:
        with pytest.raises(af.InputError, match=r"Row 0 .* has the label 5.*class numbers 0 to 2"):
            evaluator.compute(rows, n_resamples=20, rankings=["attention"])
        return
    results = evaluator.compute(rows, n_resamples=20, rankings=["attention"])
    assert results.table("texts")["gold"].tolist() == labels
    assert evaluator.compute(rows, n_resamples=20, rankings=["attention"], target=2).manifest["run"]["target"] == 2


def test_all_stands_for_the_others_wherever_it_is_listed():
    from attnfaith.evaluation.tests.base import resolve_tests, tests

    assert [test.name for test in resolve_tests(["all"])] == list(tests)
    given = af.tests.Erasure(reference="paper")
    result = resolve_tests(["all", given, "single_weight"])
    assert sorted(test.name for test in result) == sorted(tests)
    assert next(test for test in result if test.name == "erasure") is given


def test_all_rankings_and_one_more():
    from attnfaith.evaluation.rankings import rankings_for

    common = {"explanations": {}, "by_token": True, "affine": True}
    usual = rankings_for("attention", "all", **common)
    more = rankings_for("attention", ["all", "attention", "greedy"], **common)
    assert "greedy" not in [item.name for item in usual]
    assert {str(item) for item in more} == {str(item) for item in usual} | {"attention/greedy"}
