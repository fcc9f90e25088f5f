"""The sanity test: against models re-initialised by hand and scipy, and rankings of which the answer is known."""

import copy
import math
import warnings

import numpy as np
import pytest
import torch
from scipy import stats

import attnfaith as af
from attnfaith.attribution.method import methods
from attnfaith.errors import InputError
from attnfaith.evaluation.rankings import Ranking
from attnfaith.evaluation.tests.sanity.models import assigned_model, layers_of
from attnfaith.evaluation.tests.sanity.test import COLUMNS, Sanity
from attnfaith.randomness import keyed_generator
from tests.helpers.comparing import inputs_of
from tests.helpers.removal_batches import LENGTHS, SIZES, batch_of, model_of, one_of, ranked, slowly

AT_ATTENTION = ranked("attention/attention", "attention/gradient", "attention/occlusion", "attention/lrp")
AT_INPUT = ranked("input/gradient", "input/gradient_x_input", "attention/attention", "attention/gradient")
RANKINGS = {"attention": AT_ATTENTION, "input": AT_INPUT}
CONTROL = ranked("attention/random")
MEASURES = ("spearman", "spearman_absolute", "tau")


def rows_of(columns):
    result = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    table = {(row["text_id"], row["ranking_level"], row["ranking"], row["depth"]): row for row in result}
    assert len(table) == len(result)
    return table


def slow_model(model, inputs, depth, draw, how="permuted", seed=0):
    """The model with its top layers re-initialised, made from the definition."""
    other = copy.deepcopy(model)
    weights = dict(other.named_parameters())
    with torch.no_grad():
        for layer in layers_of(model, inputs)[:depth]:
            for name in layer.parameters:
                generator, values = keyed_generator(seed, "sanity", draw, name), weights[name].clone()
                words = other.get_input_embeddings()
                mine = torch.ones(len(values), dtype=torch.bool)
                if weights[name] is words.weight:
                    mine[words.padding_idx] = False
                flat = values[mine].flatten()
                if how == "permuted":
                    drawn = flat[torch.randperm(len(flat), generator=generator)]
                else:
                    noise = torch.randn(len(flat), generator=generator, dtype=torch.float64)
                    drawn = noise * flat.std(correction=0) + flat.mean()
                values[mine] = drawn.view_as(values[mine])
                weights[name].copy_(values)
    return other


def slow_measures(before, after):
    """Of one text, by scipy; NaN where a vector is constant."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        absolute = stats.spearmanr(np.abs(before), np.abs(after)).statistic
        result = (stats.spearmanr(before, after).statistic, absolute, stats.kendalltau(before, after).statistic)
    return dict(zip(MEASURES, map(float, result), strict=True))


def scores_of(batch, ranking, text):
    mask = batch.capture.mask if ranking.level == "attention" else batch.request.tokens
    return batch.scores(ranking, ranking.level)[text][mask[text]].double().tolist()


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        *((kind, "permuted") for kind in SIZES),
        ("multiclass", "normal"),
        *(pytest.param(kind, "normal", marks=pytest.mark.families) for kind in SIZES if kind != "multiclass"),
    ],
)
@pytest.mark.parametrize("family", ["FLANrnn", "bert", *slowly("HANrnn", "llama")])
def test_equals_models_reinitialised_one_by_one(family, kind, how):
    both = family in ("bert", "llama")
    rankings = RANKINGS if both else {"attention": AT_ATTENTION}
    batch = batch_of(family, kind, rankings=rankings, lengths=(3, 9, 6, 8))
    model = batch.config.cut.model
    rows = rows_of(Sanity(how=how, draws=2).run(batch))
    depths = sorted({depth for *_, depth in rows})
    assert depths == list(range(1, len(layers_of(model, batch.inputs)) + 1))
    every = list(dict.fromkeys(item for listed in rankings.values() for item in listed))
    texts = [text for text, count in enumerate(batch.capture.lengths.tolist()) if count >= 2]
    assert len(rows) == len(texts) * len(every) * len(depths)
    low = 1.0
    for depth in depths if both else depths[1:]:
        for draw in range(2):
            mine = [text for text in texts if assigned_model(text, 2) == draw]
            cut = af.cut(slow_model(model, batch.inputs, depth, draw, how))
            # nothing is erased, so that how tokens are hidden need not be proved again for each model
            other = batch_of(family, kind, rankings=rankings, inputs=batch.inputs, cut=cut, hiding=batch.config.hiding)
            other.target = batch.target
            for ranking in every:
                for text in mine:
                    row = rows[text, ranking.level, ranking.name, depth]
                    before, after = scores_of(batch, ranking, text), scores_of(other, ranking, text)
                    assert (row["draw"], row["items"], row["gold"]) == (draw, len(before), None)
                    for name, value in slow_measures(before, after).items():
                        assert row[name] == pytest.approx(value, abs=1e-9, nan_ok=True), (ranking, depth, name)
                    assert (row["reason"] is None) == (not math.isnan(row["spearman"]))
                    low = min(low, row["spearman"])
    assert low < 0.5


@pytest.mark.parametrize("family", ["FLANrnn", "HANrnn", "bert", *slowly("llama")])
def test_rows_hang_on_the_text_alone(family):
    numbers = [40, 7, 19, 3, 100, 12, 55, 8]
    inputs = inputs_of(model_of(family), lengths=LENGTHS, seed=2)
    rankings = {"attention": (*CONTROL, *AT_ATTENTION)}
    together = rows_of(Sanity().run(batch_of(family, numbers=numbers, inputs=inputs, rankings=rankings)))
    apart, kept = {}, batch_of(family, numbers=numbers, inputs=inputs, rankings=rankings).config.cache
    for text in reversed(range(len(numbers))):
        single = batch_of(family, numbers=[numbers[text]], inputs=one_of(inputs, text), rankings=rankings, cache=kept)
        apart |= rows_of(Sanity().run(single))
    assert together.keys() == apart.keys()
    for key, row in together.items():
        for name, value in row.items():
            expected = pytest.approx(apart[key][name], abs=1e-9, nan_ok=True) if isinstance(value, float) else value
            assert (value == expected) if isinstance(value, float) else value == apart[key][name], (key, name)


def test_the_copies_are_made_once_and_a_ranking_is_computed_once_for_both_levels():
    batch = batch_of("bert", rankings=RANKINGS)
    rows = Sanity().run(batch)
    made = batch.config.cache["sanity"]
    Sanity().run(batch)
    assert batch.config.cache["sanity"] is made
    shared = [
        row for row in rows_of(rows).values() if (row["ranking_level"], row["ranking"]) == ("attention", "gradient")
    ]
    assert len(shared) == len(LENGTHS) * len(made)


@pytest.fixture
def planted():
    """Rankings that look at the input alone, at the embeddings alone, and at the top layer alone."""

    @af.register_method("only_the_input", level="input")
    def only_the_input(model, inputs, target):
        return ((inputs["input_ids"] * 37) % 101).double()

    @af.register_method("only_the_embeddings", level="input")
    def only_the_embeddings(model, inputs, target):
        return model.get_input_embeddings()(inputs["input_ids"])[..., 0].detach()

    @af.register_method("only_the_classifier", level="input")
    def only_the_classifier(model, inputs, target):
        weight = (getattr(model, "classifier", None) or model.score).weight.detach()
        return weight.flatten()[(inputs["input_ids"] * 7) % weight.numel()]

    names = ("only_the_input", "only_the_embeddings", "only_the_classifier")
    yield {"attention": ranked(*(f"input/{name}" for name in names))}
    for name in names:
        del methods["input", name]


@pytest.mark.parametrize("family", ["bert", "llama", "FLANrnn"])
def test_a_ranking_notices_the_layers_that_it_looks_at_and_no_others(family, planted):
    lengths = (20, 25, 18, 22)
    rows = rows_of(Sanity().run(batch_of(family, rankings=planted, lengths=lengths)))
    last = max(depth for *_, depth in rows)

    def rho(name, depth):
        return np.array([rows[text, "input", name, depth]["spearman"] for text in range(len(lengths))])

    for depth in range(1, last + 1):
        assert (rho("only_the_input", depth) == 1).all()
        assert (rho("only_the_embeddings", depth) == 1).all() == (depth < last)
        assert (rho("only_the_classifier", depth) == rho("only_the_classifier", 1)).all()  # drawn once for all depths
    assert abs(rho("only_the_classifier", 1).mean()) < 0.5
    assert abs(rho("only_the_embeddings", last).mean()) < 0.5


@pytest.mark.parametrize("family", ["bert", "FLANrnn"])
def test_a_random_order_agrees_with_itself_by_chance_only(family):
    rows = rows_of(Sanity().run(batch_of(family, rankings={"attention": CONTROL}, lengths=(24,) * 12)))
    values = np.array([row["spearman"] for row in rows.values()])
    assert len(set(values.round(6))) > len(values) / 2
    assert abs(values.mean()) < 5 / math.sqrt(23 * len(values))


def test_uniform_attention_that_is_ignored_has_no_correlation_and_is_counted():
    model = copy.deepcopy(model_of("FLANrnn"))
    with torch.no_grad():
        model.attention.context.weight.zero_()  # all scores are 0, and every permutation of zeros is
    batch = batch_of("FLANrnn", cut=af.cut(model), rankings={"attention": AT_ATTENTION})
    for (_, _, ranking, _), row in rows_of(Sanity().run(batch)).items():
        if ranking == "attention":
            assert all(math.isnan(row[name]) for name in MEASURES)
            assert row["reason"] == "all items have the same score"
        else:
            assert row["reason"] is None


def test_a_text_without_finite_numbers_in_a_copy_is_noted_and_the_others_are_unchanged():
    model = copy.deepcopy(model_of("bert"))
    inputs = inputs_of(model, lengths=LENGTHS, seed=2)
    cut = af.cut(model)
    fine = rows_of(Sanity().run(batch_of("bert", cut=cut, inputs=inputs, rankings={"attention": AT_ATTENTION})))
    batch = batch_of("bert", cut=cut, inputs=inputs, rankings={"attention": AT_ATTENTION})
    Sanity().run(batch)
    token = int(inputs["input_ids"][2, 3])
    others = [
        text for text in range(len(LENGTHS)) if token in inputs["input_ids"][text][inputs["attention_mask"][text] > 0]
    ]
    for copies in batch.config.cache["sanity"][-1:]:
        for other in copies:
            with torch.no_grad():
                other.cut.model.bert.embeddings.word_embeddings.weight[token] = math.inf
    rows = rows_of(Sanity().run(batch))
    last = max(depth for *_, depth in rows)
    for key, row in rows.items():
        if key[0] in others and key[3] == last:
            assert math.isnan(row["spearman"])
            assert "not finite" in row["reason"]
        else:
            assert row == pytest.approx(fine[key], nan_ok=True) or row["reason"] == fine[key]["reason"]
    assert 0 < len(others) < len(LENGTHS)


def test_a_ranking_that_a_copy_cannot_have_is_noted(monkeypatch):
    batch = batch_of("bert", rankings={"attention": AT_ATTENTION})
    Sanity().run(batch)
    (bad, *_), *_ = batch.config.cache["sanity"]
    object.__setattr__(bad, "problem", "it is broken")
    rows = rows_of(Sanity().run(batch))
    told = {key[0] for key, row in rows.items() if row["reason"] == "it is broken"}
    assert told == {text for text in range(len(LENGTHS)) if assigned_model(text, 3) == 0}
    assert {key[3] for key, row in rows.items() if row["reason"] is not None} == {1}


def test_special_tokens_are_compared_unless_they_are_protected():
    for special_tokens, all_of_them in (("include", True), ("protect", False)):
        batch = batch_of("bert", rankings={"attention": AT_ATTENTION}, special_tokens=special_tokens)
        special = batch.special_items.sum(1).tolist()
        assert any(special)
        for (text, *_), row in rows_of(Sanity(depths=1).run(batch)).items():
            assert row["items"] == LENGTHS[text] - (0 if all_of_them else special[text])


def test_user_scores_are_not_computed_for_another_model():
    yours = Ranking("mine", "yours", lambda text: [1.0, 2.0])
    batch = batch_of("bert", rankings={"attention": (*CONTROL, yours)}, lengths=(4, 5))
    assert {key[2] for key in rows_of(Sanity(depths=1).run(batch))} == {"random"}


def test_a_text_of_one_item_has_no_rows():
    inputs = inputs_of(model_of("FLANrnn"), lengths=(4, 5, 4), seed=2)
    inputs["attention_mask"][0, 1:] = 0
    inputs["attention_mask"][2, 2:] = 0
    batch = batch_of("FLANrnn", rankings={"attention": AT_ATTENTION}, inputs=inputs)
    assert batch.capture.lengths.tolist() == [1, 5, 2]
    assert {key[0] for key in rows_of(Sanity().run(batch))} == {1, 2}
    assert [name for name, _ in Sanity().columns(None)] == [name for name, _ in COLUMNS] == list(Sanity().run(batch))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"how": "uniform"}, "'permuted', 'normal'"),
        ({"depths": 0}, "depths of the sanity test"),
        ({"draws": 0}, "draws of the sanity test"),
        ({"draws": None}, "draws of the sanity test"),
        ({"random_labels": 3}, "path of a model, got int"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        Sanity(**options)


def test_the_model_that_is_judged_is_not_touched():
    model = copy.deepcopy(model_of("bert")).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    batch = batch_of("bert", cut=af.cut(model), rankings=RANKINGS)
    state = torch.get_rng_state()
    Sanity().run(batch)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())
    assert all(module.training and not module._forward_hooks for module in model.modules())
