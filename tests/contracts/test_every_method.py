"""Contracts of every method of the registry on every family: who shares the batch, what is missing, ties, seeds."""

import pytest
import torch

import attnfaith as af
from attnfaith.attribution.attributor import Attributor
from attnfaith.attribution.method import methods
from attnfaith.functional.ranking import order_of
from tests.helpers.comparing import inputs_of
from tests.helpers.methods import (
    FEW_STEPS,
    METHODS,
    PRESETS,
    alone,
    ask,
    asked,
    assert_scores,
    families,
    in_double,
    items,
    tolerance_for,
)

pytestmark = FEW_STEPS
NAMES = {
    "attention": """attention gradient gradient_x_attention greedy integrated_gradients lrp occlusion optimal
    random""".split(),
    "input": """attention gradient gradient_attention_fixed gradient_x_input integrated_gradients leave_one_out lrp
    occlusion omission random rollout""".split(),
}
OMITTING = ("omission", "leave_one_out")
MAY_BE_MISSING = {("attention", "optimal"): "affine", ("input", "rollout"): "attention"}
NOT_LOOKED_UP = {"xlnet": "it turns ids around", "longformer": "it pads ids"}
"""Families that look other ids up than they were given, so that nothing is known about their word vectors."""

TIED = {("axk2", "input", "occlusion")}
"""All keys tie in its index of a zero vector, and the width of the batch decides which are attended."""

LIES_OTHERWISE = {"FLANrnn", "HANrnn", "FLANconv", "xlnet"}
"""Their layers' results do not have the batch in front: what biases absorbed is known for a text alone only."""


def test_the_protocol_s_methods_are_registered():
    for level, names in NAMES.items():
        assert set(names) <= {name for at, name in methods if at == level}


@pytest.mark.parametrize("family", families())
def test_every_method_scores_every_item_or_says_why_not(family):
    done = in_double(family)
    for level, name in METHODS:
        problem = None
        try:
            request, scores = ask(done.cut, level, name, done.inputs)
        except af.AttnFaithError as error:  # any other exception is a failure
            problem = str(error)
        if problem:
            vectors = level == "input" and name not in ("attention", "random", "rollout", *OMITTING)
            assert (level, name) in MAY_BE_MISSING or (vectors and family in NOT_LOOKED_UP), (level, name, problem)
            assert len(problem) > 60
            assert "use " in problem.lower(), f"what to do instead? {problem}"
            continue
        mask = done.capture.mask if level == "attention" else done.inputs["attention_mask"].bool()
        assert torch.equal(scores.mask, mask)
        assert scores.values.shape == mask.shape
        assert not scores.values[~mask].any(), "a score at padding"
        assert not scores.values.requires_grad
        undefined = scores.values.isnan()
        assert not scores.values.isinf().any()
        assert not undefined.any() or (name in OMITTING and scores.note)
        assert scores.values[mask & ~undefined].abs().sum() > 0
        assert methods[level, name].signed or (scores.values[mask & ~undefined] >= 0).all()
        assert request.target.equal(request.decision.predict(done.capture.logits))


@pytest.mark.parametrize("family", families())
def test_a_text_scores_the_same_alone_and_in_any_batch(family):
    """Every method: neither the other texts, their order, nor padding change the scores of a text."""
    done = in_double(family)
    inputs = inputs_of(done.model, lengths=(9, 13))
    texts = range(len(inputs["input_ids"]))  # one, for a family without padding
    turned = {key: value.flip(0) if value.shape[:1] == (2,) else value for key, value in inputs.items()}
    singles = [alone(inputs, text) for text in texts]
    wrong = {}
    for level, name in METHODS:
        try:
            together = ask(done.cut, level, name, turned, text_ids=tuple(reversed(texts)))[1]
        except af.UnsupportedModelError:
            continue  # the test above says which may be missing
        for text in () if (family, level, name) in TIED else texts:
            single = ask(done.cut, level, name, singles[text], text_ids=(text,))[1]
            index = len(texts) - 1 - text
            try:
                assert_scores(items(together, index), items(single, 0), tolerance_for(done))
                for of_batch, of_text in ((together.gap, single.gap), (together.absorbed, single.absorbed)):
                    assert (of_batch is None) == (of_text is None)
                    if of_text is None:
                        continue
                    unknown = of_text is single.absorbed and family in LIES_OTHERWISE and of_batch.isnan().all()
                    if not unknown:
                        torch.testing.assert_close(of_batch[index], of_text[0], rtol=1e-3, atol=tolerance_for(done))
            except AssertionError as error:
                wrong[level, name, text] = str(error)
    assert not wrong


@pytest.mark.parametrize("chunk", [1, 3, 1000])
@pytest.mark.parametrize("family", ["FLANrnn", "HANrnn", "bert", "gpt2", "t5"])
def test_pieces_change_nothing(family, chunk):
    done = in_double(family)
    for level, name in METHODS:
        attributor = Attributor(done.cut, method=name, level=level, steps=5)
        try:
            expected = attributor.score(done.inputs)[1]
        except af.UnsupportedModelError:
            continue
        got = attributor.score(done.inputs, chunk=chunk)[1]
        for text in range(2):
            assert_scores(items(got, text), items(expected, text), tolerance_for(done))


@pytest.mark.parametrize("level", ["attention", "input"])
def test_random_is_a_function_of_seed_text_and_level(level):
    done = in_double("bert")

    def draws(**settings):
        return ask(done.cut, level, "random", done.inputs, **settings)[1].values

    assert torch.equal(draws(), draws())
    state = torch.random.get_rng_state()
    torch.rand(3)
    assert torch.equal(draws(), draws(seed=0))
    torch.random.set_rng_state(state)
    assert not torch.equal(draws(), draws(seed=1))
    assert not torch.equal(draws(text_ids=(0, 1)), draws(text_ids=(2, 3)))
    assert torch.equal(draws(text_ids=(7, 3))[0], draws(text_ids=(7, 4))[0])
    same = alone(done.inputs, 0)
    other = same | {"input_ids": same["input_ids"].flip(1)}
    by_key = [ask(done.cut, level, "random", item, text_ids=(5,))[1].values for item in (same, other)]
    assert torch.equal(*by_key)
    levels = [ask(done.cut, at, "random", same, text_ids=(5,))[1].values for at in ("attention", "input")]
    assert not torch.equal(*levels)


def test_random_is_uniform():
    done = in_double("FLANnoenc")
    ids = torch.randint(5, 60, (50, 40))
    values = ask(done.cut, "input", "random", {"input_ids": ids}, text_ids=tuple(range(50)))[1].values.flatten()
    grid = torch.linspace(0, 1, 11, dtype=torch.float64)
    shares = torch.stack([(values < point).double().mean() for point in grid])
    assert (shares - grid).abs().max() < 1.63 / len(values) ** 0.5  # Kolmogorov and Smirnov's bound at 1 %
    first = order_of(values.view(50, 40), torch.ones(50, 40, dtype=torch.bool))[:, 0]
    assert len(first.unique()) > 20


@pytest.mark.parametrize(("level", "name"), METHODS)
def test_equal_items_score_the_same(level, name):
    """Up to rounding, for sums differ by place; `tests/functional/test_ranking.py` has what follows for the order."""
    done = in_double("FLANnoenc")
    ids = torch.full((2, 7), 9)
    ids[1, 3] = 11
    scores = asked(done.cut, level, name, {"input_ids": ids, "attention_mask": torch.ones_like(ids)})
    if methods[level, name].seeded or name in ("greedy", "optimal"):  # these give each item a place of its own
        return
    assert (scores.values[0] - scores.values[0, 0]).abs().max() <= 1e-12 * scores.values.abs().max()
    others = scores.values[1, [0, 1, 2, 4, 5, 6]]
    assert (others - others[0]).abs().max() <= 1e-12 * scores.values.abs().max()
    assert abs(scores.values[1, 3] - others[0]) > 1e-3 * scores.values[1].abs().max()


@pytest.mark.parametrize("family", PRESETS)
def test_rollout_needs_more_than_one_attention(family):
    with pytest.raises(af.UnsupportedModelError, match="only the final attention"):
        ask(in_double(family).cut, "input", "rollout", in_double(family).inputs)
    with pytest.raises(af.UnsupportedModelError, match="affine in one attended vector"):
        ask(in_double("bert").cut, "attention", "optimal", in_double("bert").inputs)
