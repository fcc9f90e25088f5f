"""A model in any state (training mode, flash attention, shared, used by other threads) gives the same numbers."""

import threading

import pytest
import torch
from transformers.masking_utils import eager_mask

import attnfaith as af
from attnfaith.tiny_models import tiny_model
from tests.adapters.test_attention_implementations import as_kernel, hidden, registered
from tests.helpers.comparing import assert_close, inputs_of, keeps_of, model_of, orders_of


def numbers(model, inputs, cut=None):
    """Everything a cut says about one batch."""
    cut = cut or af.cut(model)
    capture = cut.capture(**inputs)
    keep, order = keeps_of(capture), orders_of(capture)
    reruns = cut.rerun(capture, keep=keep), cut.rerun(capture, weights=capture.weights.unsqueeze(1))
    return [capture.logits, capture.weights, *reruns, cut.prefixes(capture, order)]


def assert_equal(left, right, tolerance=0.0):
    for first, other in zip(left, right, strict=True):
        if tolerance:
            assert_close(first, other, tolerance)
        else:
            assert torch.equal(first, other)


@pytest.mark.parametrize("family", ["bert", "gpt2", "bart", "deberta-v2", "xlnet"])
def test_a_model_in_training_mode_is_evaluated(family):
    model = tiny_model(family)
    inputs = inputs_of(model)
    rates = [module for module in model.modules() if isinstance(module, torch.nn.Dropout) and module.p > 0]
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.5
    expected = numbers(model, inputs)
    model.train()
    assert_equal(numbers(model, inputs), expected)
    assert all(module.training for module in model.modules())
    with torch.no_grad():
        assert not torch.equal(model(**inputs).logits, model(**inputs).logits), f"no dropout to speak of ({rates})"


@pytest.mark.parametrize("family", ["bert", "llama", "eurobert", "bart", "HANrnn"])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_inside_any_gradient_mode(family, mode):
    model = model_of(family)
    inputs = inputs_of(model)
    expected = numbers(model, inputs)
    with mode():
        inside = numbers(model, inputs)
        capture = af.cut(model).capture(**inputs)
    assert_equal(inside, expected)
    cut = af.cut(model)
    weights = capture.weights.unsqueeze(1).clone().requires_grad_()
    cut.rerun(capture, weights=weights)[..., 0].sum().backward()  # captured inside, differentiated outside
    assert weights.grad.abs().sum() > 0


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_inputs_made_in_inference_mode(family):
    model = model_of(family)
    with torch.inference_mode():
        inputs = {name: value.clone() for name, value in inputs_of(model).items()}
    assert_equal(numbers(model, inputs), numbers(model, inputs_of(model)))


def run_together(jobs):
    """Run functions in threads, all starting at once; return what they returned, or raise what one raised."""
    barrier, results, errors = threading.Barrier(len(jobs)), [None] * len(jobs), []

    def work(index):
        try:
            barrier.wait()
            results[index] = jobs[index]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


@pytest.fixture
def kernel():
    """A kernel that nobody can watch, so that another one replaces it."""
    with registered(as_kernel(hidden(1.0)), eager_mask, "kernel"):
        yield


@pytest.mark.parametrize("attention", ["sdpa", "eager", "kernel"])
def test_two_models_of_one_config_in_two_threads(attention, kernel):
    models = [tiny_model("bert", seed=seed, attn_implementation="sdpa") for seed in (1, 2)]
    inputs = [inputs_of(model, seed=seed) for seed, model in enumerate(models)]
    expected = [numbers(model, batch) for model, batch in zip(models, inputs, strict=True)]
    config = models[0].config
    for module in models[1].modules():
        if hasattr(module, "config"):
            module.config = config
    config._attn_implementation_internal = attention

    def job(index):
        return lambda: [numbers(models[index], inputs[index]) for _ in range(12)]

    for position, results in enumerate(run_together([job(0), job(1), job(0), job(1)])):
        for result in results:
            assert_equal(result, expected[position % 2], 1e-6)
    assert config._attn_implementation == attention
    assert not any("forward" in vars(module) for model in models for module in model.modules())


@pytest.mark.parametrize("family", ["bert", "llama", "FLANrnn"])
def test_one_model_in_several_threads(family):
    """Cutting, capturing and rerunning one model at a time in each of three threads; a plain forward in a fourth."""
    model = model_of(family)
    batches = [inputs_of(model, seed=seed) for seed in range(3)]
    expected = [numbers(model, batch) for batch in batches]
    with torch.no_grad():
        model_logits = model(**batches[0]).logits

    def job(index):
        return lambda: [numbers(model, batches[index]) for _ in range(10)]

    def plain():
        with torch.no_grad():
            return [model(**batches[0]).logits for _ in range(100)]

    *results, forwards = run_together([job(0), job(1), job(2), plain])
    for position, repeated in enumerate(results):
        for result in repeated:
            assert_equal(result, expected[position])
    assert all(torch.equal(logits, model_logits) for logits in forwards), "a forward pass elsewhere was disturbed"
    assert not any("forward" in vars(module) for module in model.modules())
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_the_global_random_state_is_left_alone():
    model = model_of("bert")
    inputs = inputs_of(model)
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    numbers(model.train(), inputs)
    assert torch.equal(torch.rand(4), expected)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_decoder_without_a_padding_token_is_cut(family):
    """It refuses two texts at once, although candidates of one length have no padding; its configuration stays."""
    model, reference = tiny_model(family), tiny_model(family)
    reference.config.pad_token_id = 1
    model.config.pad_token_id = None
    cut, other = af.cut(model), af.cut(reference)
    assert cut.adapter.tail == "one position"
    assert model.config.pad_token_id is None
    inputs = {"input_ids": torch.tensor([[5, 6, 7, 8, 9], [9, 5, 20, 21, 7]])}
    capture, expected = cut.capture(**inputs), other.capture(**inputs)
    torch.testing.assert_close(capture.logits, expected.logits)
    order = torch.tensor([[4, 0, 1, 3, 2], [0, 1, 2, 3, 4]])
    torch.testing.assert_close(cut.prefixes(capture, order), other.prefixes(expected, order))
    with pytest.raises(af.InputError, match="pad_token_id"):
        cut.capture(**inputs, attention_mask=torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]))
