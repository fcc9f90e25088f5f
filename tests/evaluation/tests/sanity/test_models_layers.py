"""A model's layers: every parameter in one of them, the top one first, whatever the family."""

import copy
import re

import pytest
import torch
from torch import nn

from attnfaith.errors import UnsupportedModelError
from attnfaith.evaluation.tests.sanity.models import layers_of
from tests.helpers.comparing import families, inputs_of, model_of

HEADS = ("classifier", "score", "classification_head", "logits_proj", "sequence_summary")
BOTTOM = re.compile(r"embed|shared|wte|\.w$|mask_emb")
IDS = {"input_ids": torch.tensor([[5, 6, 7, 8]])}


def names(model, inputs=IDS):
    return [layer.name for layer in layers_of(model, inputs)]


@pytest.mark.parametrize("family", families())
def test_every_parameter_is_in_one_layer_and_the_head_is_the_first(family):
    model = model_of(family)
    layers = layers_of(model, inputs_of(model))
    listed = [name for layer in layers for name in layer.parameters]
    assert sorted(listed) == sorted(name for name, _ in model.named_parameters())
    assert layers[0].name.startswith(HEADS), [layer.name for layer in layers]
    assert BOTTOM.search(layers[-1].name), [layer.name for layer in layers]
    for layer in layers[:-1]:
        assert all(name == layer.name or name.startswith(f"{layer.name}.") for name in layer.parameters)


@pytest.mark.parametrize("family", families())
def test_blocks_of_a_stack_are_layers_from_the_last_to_the_first(family):
    stacks = {}
    for name in names(model_of(family), inputs_of(model_of(family))):
        if name.rpartition(".")[2].isdigit():
            stacks.setdefault(name.rpartition(".")[0], []).append(int(name.rpartition(".")[2]))
    assert stacks or family in ("FLANrnn", "HANrnn", "FLANnoenc")
    assert all(numbers == sorted(numbers, reverse=True) for numbers in stacks.values())


def test_the_layers_of_models_that_are_known():
    han = "classifier attention encoder word_attention word_encoder embeddings"
    assert names(model_of("HANrnn"), inputs_of(model_of("HANrnn"))) == han.split()
    assert names(model_of("FLANnoenc"), inputs_of(model_of("FLANnoenc"))) == ["classifier", "attention", "embeddings"]
    assert names(model_of("albert")) == [
        "classifier",
        "albert.pooler",
        "albert.encoder.albert_layer_groups.0",  # every layer is this one
        "albert.encoder.embedding_hidden_mapping_in",
        "albert.embeddings",
    ]
    assert names(model_of("llama")) == ["score", "model.norm", "model.layers.1", "model.layers.0", "model.embed_tokens"]
    bart = names(model_of("bart"), inputs_of(model_of("bart")))
    assert bart.index("model.decoder.layers.0") < bart.index("model.encoder.layers.1") < bart.index("model.shared")


class Own(nn.Module):
    """A stack of blocks, some single layers side by side, a parameter of its own, and one that nothing uses."""

    def __init__(self):
        super().__init__()
        self.head = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
        self.shift = nn.Parameter(torch.zeros(4))
        self.unused = nn.Linear(3, 3)
        self.blocks = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(3)))
        self.side = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.words = nn.Embedding(9, 4)

    def forward(self, input_ids):
        vectors = self.words(input_ids)
        vectors = sum(item(vectors) for item in self.side)
        return self.head(self.blocks(vectors).mean(1) + self.shift)


def test_of_a_model_of_your_own():
    model = Own()
    assert names(model) == ["head", "shift", "blocks.2", "blocks.1", "blocks.0", "side", "words"]
    assert layers_of(model, IDS)[-1].parameters == ("words.weight", "unused.weight", "unused.bias")


def test_a_shared_parameter_is_in_the_first_of_its_layers():
    model = Own()
    model.blocks[2] = model.blocks[0]
    assert names(model) == ["head", "shift", "blocks.1", "blocks.0", "side", "words"]


def test_a_plain_sequence_of_layers():
    class Flat(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(16, 2))

        def forward(self, input_ids):
            return self.parts(input_ids)

    assert names(Flat()) == ["parts"]  # no blocks: its modules are single layers
    assert names(Flat().parts, {"input": IDS["input_ids"]}) == ["2", "0"]


def test_a_model_that_uses_nothing_is_refused():
    class Idle(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(1, 1)

        def forward(self, input_ids):
            return input_ids.float()

    with pytest.raises(UnsupportedModelError, match="nothing to re-initialise"):
        layers_of(Idle(), IDS)


@pytest.mark.parametrize("family", ["bert", "FLANrnn", "llama"])
def test_nothing_is_left_behind(family):
    model = copy.deepcopy(model_of(family)).train()
    state, weights = torch.get_rng_state(), {name: value.clone() for name, value in model.state_dict().items()}
    layers_of(model, inputs_of(model))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(module.training and not module._forward_hooks for module in model.modules())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
