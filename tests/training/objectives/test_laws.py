"""Laws of every objective: weight 0 changes nothing, each improves its figure, they combine, nothing stays on."""

import pytest
import torch

from attnfaith.errors import InputError
from attnfaith.training import (
    DeceptiveAttention,
    Diversity,
    FixedAttention,
    FixedRepresentations,
    GumbelSoftmax,
    MaskedFineTuning,
    Objective,
    WordPrediction,
    WordTying,
    fit,
)
from tests.helpers.training_data import rows, same, small, weights
from tests.training.test_fitting import transformer
from tests.training.test_left_behind import TroubleError, surroundings

TRAIN, HELD_OUT = rows(64), rows(32, seed=1)
TELLING = ["dreadful", "magnificent"]
QUICK = {"learning_rate": 0.01, "epochs": 2, "batch_size": 16}
TERMS = {
    "impermissible_mass": lambda weight: DeceptiveAttention(TELLING, weight=weight),
    "conicity": Diversity,
    "word_distance": WordTying,
    "word_accuracy": WordPrediction,
}
"""From the figure of each objective that adds a term to the objective, made from its weight."""
KINDS = ["FLANrnn", "HANrnn", "bert"]
BOTH, RISES, OF_WORDS = ("impermissible_mass", "conicity"), {"word_accuracy"}, {"word_distance", "word_accuracy"}


def terms(kind):
    """The figures that a model of this kind has; a HAN has no hidden states of words."""
    return {figure: make for figure, make in TERMS.items() if kind != "HANrnn" or figure not in OF_WORDS}


def made(kind, **options):
    return transformer(kind, **options) if kind in ("bert", "gpt2") else small(kind, **options)


@pytest.mark.parametrize("kind", [*KINDS, "gpt2"])
def test_with_weight_0_training_is_the_plain_one_to_the_bit(kind):
    plain, tokenizer = made(kind)
    watched, _ = made(kind)
    history = fit(plain, tokenizer, TRAIN, HELD_OUT, **QUICK)
    objectives = [make(0.0) for make in terms(kind).values()]
    with_figures = fit(watched, tokenizer, TRAIN, HELD_OUT, objectives=objectives, **QUICK)
    assert same(weights(plain), weights(watched))
    for before, after in zip(history.epochs, with_figures.epochs, strict=True):
        assert set(after) - set(before) == set(terms(kind))
        assert {name: after[name] for name in before} == before


@pytest.mark.parametrize(("kind", "figure"), [(kind, figure) for kind in KINDS for figure in terms(kind)])
def test_each_improves_its_figure(kind, figure):
    options = {"initializer_range": 0.1} if kind == "bert" else {}
    found = {}
    for weight in (0.0, 2.0):
        model, tokenizer = made(kind, **options)
        objectives = [TERMS[figure](weight)]
        history = fit(
            model, tokenizer, TRAIN, HELD_OUT, objectives=objectives, learning_rate=0.02, epochs=4, batch_size=16
        )
        found[weight] = history.epochs[-1]
    if figure in RISES:
        assert found[2.0][figure] > 1.5 * found[0.0][figure]
    else:
        assert found[2.0][figure] < 0.95 * found[0.0][figure]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_two_at_once(kind):
    options = {"initializer_range": 0.1} if kind == "bert" else {}
    found = {}
    for weight in (0.0, 1.0):
        model, tokenizer = made(kind, **options)
        history = fit(
            model, tokenizer, TRAIN, HELD_OUT, objectives=[TERMS[figure](weight) for figure in BOTH],
            learning_rate=0.02, epochs=5, batch_size=16,
        )  # fmt: skip
        found[weight] = history.epochs[-1]
    assert all(found[1.0][figure] < found[0.0][figure] for figure in BOTH)


EVERY = {
    "impermissible": lambda: DeceptiveAttention(TELLING),
    "conicity": lambda: Diversity(1.0),
    "fixed_attention": FixedAttention,
    "gumbel_softmax": GumbelSoftmax,
    "fixed_representations": FixedRepresentations,
    "masked_fine_tuning": MaskedFineTuning,
    "word_tying": WordTying,
    "word_prediction": WordPrediction,
}


@pytest.mark.parametrize("mode", ["fine", "the model raises"])
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("kind", ["FLANrnn", "bert"])
def test_nothing_is_left_behind(kind, name, mode, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, tokenizer = made(kind)
    calls = []

    def trouble(module, args):
        calls.extend([1] * module.training)
        if len(calls) == 3 and mode != "fine":
            raise TroubleError

    list(model.modules())[-1].register_forward_pre_hook(trouble)
    before = surroundings(model, tokenizer)
    caught = None
    try:
        fit(model, tokenizer, TRAIN, HELD_OUT, objectives=[EVERY[name]()], **QUICK)
    except TroubleError as error:
        caught = error
    assert (caught is None) == (mode == "fine")
    after = surroundings(model, tokenizer)
    for part, value in before.items():
        assert part == "temporary" or after[part] == value, f"{part} changed"
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_two_that_replace_the_attention_are_refused():
    model, tokenizer = small()
    with pytest.raises(InputError, match="fixed_attention and gumbel_softmax"):
        fit(model, tokenizer, TRAIN, objectives=[FixedAttention(), GumbelSoftmax()], **QUICK)
    with pytest.raises(InputError, match="twice"):
        fit(model, tokenizer, TRAIN, objectives=[Diversity(), Diversity(1.0)], **QUICK)


@pytest.mark.parametrize("objectives", ["diversity", [Diversity], 3, [None]])
def test_what_is_no_objective_is_refused(objectives):
    model, tokenizer = small()
    with pytest.raises(InputError, match="Expected objectives"):
        fit(model, tokenizer, TRAIN, objectives=objectives, **QUICK)


@pytest.mark.parametrize("make", [lambda weight: DeceptiveAttention(["a"], weight=weight), Diversity])
@pytest.mark.parametrize("weight", [-0.1, float("nan"), float("inf"), "much", None, True])
def test_weights_that_are_refused(make, weight):
    with pytest.raises(InputError, match="weight"):
        make(weight)


def test_an_objective_of_ones_own(tmp_path):
    """The entropy of attention as a penalty: attention becomes peaked; its checkpoints know it."""

    class Entropy(Objective):
        name, needs_attention = "entropy", True

        def __init__(self, weight):
            self.weight = weight

        def term(self, step):
            return torch.special.entr(step.attention.weights).sum(-1).mean(1)

        def figures(self, step):
            return {"entropy": self.term(step)}

    found = {}
    for weight in (0.0, 3.0):
        model, tokenizer = small()
        folder = tmp_path / str(weight)
        history = fit(
            model, tokenizer, TRAIN, HELD_OUT, objectives=[Entropy(weight)], checkpoint_dir=folder,
            **(QUICK | {"learning_rate": 0.05}),
        )  # fmt: skip
        found[weight] = history.epochs[-1]["entropy"]
    assert found[3.0] < 0.9 * found[0.0]
    model, tokenizer = small()
    with pytest.raises(InputError):
        fit(
            model, tokenizer, TRAIN, HELD_OUT, objectives=[Entropy(2.0)], checkpoint_dir=folder,
            **(QUICK | {"learning_rate": 0.05}),
        )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_hidden_tokens_are_no_items(kind):
    """What another objective hid counts in no term: a Transformer computes its values all the same."""
    seen = []

    class HidesTheFourth(Objective):
        name, needs_attention, weight = "hides", True, 1.0

        def change(self, step):
            mask = step.inputs["attention_mask"].clone()
            mask[:, 3] = 0
            return {**step.inputs, "attention_mask": mask}

        def term(self, step):
            attention, visible = step.attention, step.inputs["attention_mask"].bool()
            at_items = visible if attention.positions is None else visible.gather(1, attention.positions)
            seen.append(bool((attention.token_mask & ~visible).any()))
            seen.append(attention.positions is not None and bool((attention.mask & ~at_items).any()))
            assert attention.token_mask.any(1).all()

    model, tokenizer = made(kind)
    fit(model, tokenizer, TRAIN, objectives=[HidesTheFourth()], **(QUICK | {"epochs": 1}))
    assert seen
    assert not any(seen)


def test_a_loss_with_an_objective_is_the_sum_of_its_parts():
    """One step over all texts, float64: the weights move by the gradient of loss plus weight times mean penalty."""
    model, tokenizer = small("FLANrnn", input_dropout=0.0, classifier_dropout=0.0)
    twin, _ = small("FLANrnn", input_dropout=0.0, classifier_dropout=0.0)
    model, twin = model.double(), twin.double().train()
    fit(
        model, tokenizer, TRAIN, learning_rate=0.01, epochs=1, batch_size=64,
        objectives=[DeceptiveAttention(TELLING, weight=0.7), Diversity(0.3)],
    )  # fmt: skip
    inputs = tokenizer([row["text"] for row in TRAIN], padding=True, return_tensors="pt")
    attended = twin.attend(inputs["input_ids"], inputs["attention_mask"])
    logits = twin.decide(attended.context)
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor([row["label"] for row in TRAIN]))
    listed = set(tokenizer.convert_tokens_to_ids(TELLING))
    for text, ids in enumerate(inputs["input_ids"].tolist()):
        count = int(attended.mask[text].sum())
        left = sum(
            attended.weights[text, item]
            for item in range(count)
            if ids[int(attended.spans[text, item, 0])] not in listed
        )
        loss = loss - 0.7 * torch.log(left) / len(TRAIN)
        vectors = attended.values[text, :count]
        mean = vectors.mean(0)
        cosines = [vector @ mean / vector.norm() / mean.norm() for vector in vectors]
        loss = loss + 0.3 * sum(cosines) / count / len(TRAIN)
    optimizer = torch.optim.Adam(twin.parameters(), lr=0.01)
    loss.backward()
    optimizer.step()
    for name, value in twin.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value, rtol=0, atol=1e-9)
