"""Re-initialised copies: what they share is there once, and the model that is judged is not touched."""

import copy
import itertools
import threading

import pytest
import torch
from torch import nn

import attnfaith as af
from attnfaith.adapters.self_check import relative_difference, scale_of
from attnfaith.errors import InputError, UnsupportedModelError
from attnfaith.evaluation.tests.sanity.models import layers_of, randomised, retrained, with_weights
from attnfaith.functional.reinitialize import reinitialize
from attnfaith.randomness import keyed_generator
from tests.helpers import comparing
from tests.helpers.comparing import families, inputs_of
from tests.helpers.removal_batches import cut_of, model_of

FAMILIES = ["bert", "llama", "FLANrnn", "HANrnn"]


def parameters(item):
    return dict(item.cut.model.named_parameters())


def storages_of(model):
    """Where the numbers of a model's parameters are, and how many bytes they are."""
    return {value.data_ptr(): value.numel() * value.element_size() for value in model.parameters()}


def made(family, **options):
    cut = cut_of(family)
    return cut, randomised(cut, inputs_of(cut.model), seed=0, **options)


@pytest.mark.parametrize("how", ["permuted", "normal"])
@pytest.mark.parametrize("family", FAMILIES)
def test_only_the_layers_of_a_depth_are_reinitialised(family, how):
    cut, result = made(family, how=how, draws=2)
    layers, by_name = layers_of(cut.model, inputs_of(cut.model)), dict(cut.model.named_parameters())
    words = cut.model.get_input_embeddings()
    assert words.padding_idx is not None
    assert [(others[0].layer, others[0].depth) for others in result] == [
        (layer.name, depth) for depth, layer in enumerate(layers, start=1)
    ]
    for others in result:
        gone = {name for layer in layers[: others[0].depth] for name in layer.parameters}
        for draw, other in enumerate(others):
            for name, value in parameters(other).items():
                generator = keyed_generator(0, "sanity", draw, name)
                row = words.padding_idx if by_name[name] is words.weight else None
                if name not in gone:
                    assert torch.equal(value, by_name[name])
                elif row is None:
                    assert torch.equal(value, reinitialize(by_name[name], generator, how))
                else:
                    others = torch.cat((value[:row], value[row + 1 :]))
                    before = torch.cat((by_name[name][:row], by_name[name][row + 1 :]))
                    assert torch.equal(others, reinitialize(before, generator, how))
                    assert torch.equal(value[row], by_name[name][row])


@pytest.mark.parametrize("draws", [1, 3])
@pytest.mark.parametrize("family", FAMILIES)
def test_all_depths_of_a_draw_take_the_memory_of_one_more_model(family, draws):
    cut, result = made(family, draws=draws)
    storages = storages_of(cut.model)
    every = dict(storages)
    for others in result:
        for other in others:
            every |= storages_of(other.cut.model)
    assert sum(every.values()) <= (1 + draws) * sum(storages.values())
    for draw in range(draws):
        for fewer, more in itertools.pairwise(result):
            first, second = parameters(fewer[draw]), parameters(more[draw])
            apart = {name for name in first if first[name].data_ptr() != second[name].data_ptr()}
            assert apart == {
                name for name in first if first[name].data_ptr() in storages and second[name].data_ptr() not in storages
            }
    assert set(storages_of(result[-1][0].cut.model)).isdisjoint(storages)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_model_is_not_touched(family):
    model = copy.deepcopy(model_of(family)).train()
    model.get_input_embeddings().requires_grad_(False)
    cut = af.cut(model)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    flags = [(value.requires_grad, value.grad) for value in model.parameters()]
    state = torch.get_rng_state()
    result = randomised(cut, inputs_of(model), seed=0)
    for others in result:
        others[0].cut.capture(**inputs_of(model))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert [(value.requires_grad, value.grad) for value in model.parameters()] == flags
    assert all(module.training and not module._forward_hooks for module in model.modules())
    assert cut.model is model
    mine = {id(value) for value in (*model.parameters(), *model.modules())}
    for others in result:
        theirs = others[0].cut.model
        assert mine.isdisjoint(id(value) for value in (*theirs.parameters(), *theirs.modules()))


@pytest.mark.parametrize("family", families())
def test_every_copy_is_cut_where_the_model_is_and_gives_its_own_logits(family):
    """At every depth in the quick families, at the first and the last in the others."""
    model = comparing.model_of(family)
    cut, inputs = af.cut(model), inputs_of(model)
    depths = None if family in comparing.QUICK else 2
    for (other,) in randomised(cut, inputs, seed=0, depths=depths):
        assert other.problem == ""
        with torch.no_grad():
            logits = other.cut.model(**inputs).logits
        capture = other.cut.capture(**inputs)
        assert relative_difference(capture.logits, logits, scale_of(logits)) < 1e-5
        assert other.cut.adapter.tail == cut.adapter.tail
        keep = capture.mask.unsqueeze(1) & (torch.arange(capture.shape[2]) % 2 == 0)
        fresh = af.cut(other.cut.model)
        twin = fresh.rerun(fresh.capture(**inputs), keep=keep)
        assert relative_difference(other.cut.rerun(capture, keep=keep), twin, scale_of(twin)) < 1e-5


def test_the_same_seed_gives_the_same_and_another_another():
    cut = cut_of("bert")
    first, second, three = (randomised(cut, inputs_of(cut.model), seed=seed, draws=2)[-1] for seed in (4, 4, 5))
    name = "bert.encoder.layer.0.output.dense.weight"
    assert torch.equal(parameters(first[0])[name], parameters(second[0])[name])
    others = [parameters(first[1])[name], parameters(three[0])[name], parameters(three[1])[name]]
    assert not any(torch.equal(parameters(first[0])[name], other) for other in others)


def test_some_depths_are_the_same_copies_as_among_all():
    _, every = made("bert")
    _, some = made("bert", depths=2)
    assert [others[0].depth for others in some] == [1, len(every)]
    for others in some:
        again = parameters(every[others[0].depth - 1][0])
        assert all(torch.equal(value, again[name]) for name, value in parameters(others[0]).items())


def test_tied_weights_stay_tied():
    cut = cut_of("bart")
    model = with_weights(cut, {}).model
    assert model.model.shared.weight is model.model.encoder.embed_tokens.weight
    drawn = randomised(cut, inputs_of(cut.model), seed=0)[-1][0].cut.model
    assert drawn.model.shared.weight is drawn.model.decoder.embed_tokens.weight


def test_a_cut_at_another_place_is_copied_with_its_place():
    cut = af.cut(model_of("bert"), layer=0, heads=[1, 2])
    for (other,) in randomised(cut, inputs_of(cut.model), seed=0):
        assert (other.cut.adapter.heads, other.cut.adapter.call_path.name) == ([1, 2], cut.adapter.call_path.name)
        capture, original = (item.capture(**inputs_of(cut.model)) for item in (other.cut, cut))
        assert capture.shape == original.shape


def test_a_copy_whose_numbers_are_not_finite_says_so():
    model = copy.deepcopy(model_of("bert"))
    cut = af.cut(model)
    with torch.no_grad():  # only once it stands elsewhere does it overflow
        model.bert.embeddings.word_embeddings.weight[60] = 1e308
        model.bert.embeddings.word_embeddings.weight[61] = -1e308
    inputs = {"input_ids": torch.arange(5, 60).unsqueeze(0), "attention_mask": torch.ones(1, 55)}
    result = randomised(cut, inputs, seed=0)
    assert [bool(others[0].problem) for others in result] == [False] * (len(result) - 1) + [True]
    assert "not finite" in result[-1][0].problem or "NaN" in result[-1][0].problem


def test_a_quantised_model_and_one_that_cannot_be_copied_are_refused():
    model = copy.deepcopy(model_of("FLANnoenc"))
    cut = af.cut(model)
    model.lock = threading.Lock()
    with pytest.raises(UnsupportedModelError, match="cannot be copied"):
        randomised(cut, inputs_of(model), seed=0)
    del model.lock
    model.codes = nn.Parameter(torch.ones(3, dtype=torch.int8), requires_grad=False)
    with pytest.raises(UnsupportedModelError, match=r"'codes' has the dtype torch\.int8"):
        randomised(cut, inputs_of(model), seed=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_another_model_of_the_same_architecture_takes_its_place(family):
    cut, other = cut_of(family), model_of(family, seed=3)
    inputs = inputs_of(cut.model)
    result = retrained(cut, inputs, copy.deepcopy(other).float(), "random labels")
    assert (result.layer, result.depth, result.problem) == ("random labels", 0, "")
    with torch.no_grad():
        expected = other(**inputs).logits
    assert relative_difference(result.cut.capture(**inputs).logits, expected, scale_of(expected)) < 1e-5
    assert next(result.cut.model.parameters()).dtype == torch.float64


def test_another_architecture_is_refused():
    cut = cut_of("bert")
    inputs = inputs_of(cut.model)
    with pytest.raises(InputError, match=r"'bert\.embeddings\.word_embeddings\.weight' have other shapes"):
        retrained(cut, inputs, copy.deepcopy(model_of("FLANrnn")), "random labels")
    with pytest.raises(InputError, match="classifier"):
        retrained(cut, inputs, copy.deepcopy(model_of("bert", "sigmoid")), "random labels")
    otherwise = copy.deepcopy(cut.model)
    otherwise.config.num_attention_heads = 2
    otherwise = type(otherwise)(otherwise.config).double().eval()
    with pytest.raises(InputError, match="their configurations differ"):
        retrained(cut, inputs, otherwise, "random labels")
