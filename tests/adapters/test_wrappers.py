"""Models inside wrappers of other packages: the model inside is cut, with the same numbers."""

import copy
import warnings

import pytest
import torch
from torch import nn

import attnfaith as af
from tests.helpers.comparing import assert_close, assert_same, inputs_of, keeps_of, model_of, orders_of


def numbers(model, inputs):
    cut = af.cut(model)
    capture = cut.capture(**inputs)
    keep, order = keeps_of(capture), orders_of(capture)
    return [capture.logits, capture.weights, cut.rerun(capture, keep=keep), cut.prefixes(capture, order)]


def assert_equal(left, right, tolerance=1e-6):
    for first, other in zip(left, right, strict=True):
        assert_close(first, other, tolerance)


@pytest.fixture
def lora():
    """A BERT with low-rank adapters that matter."""
    peft = pytest.importorskip("peft")
    settings = peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"], lora_alpha=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = peft.get_peft_model(model_of("bert"), settings)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.5)
    return model.eval()


def test_lora(lora):
    inputs = inputs_of(lora)
    with torch.no_grad():
        model_logits = lora(**inputs).logits
        with lora.disable_adapter():
            assert (lora(**inputs).logits - model_logits).abs().max() > 0.01
    got = numbers(lora, inputs)
    assert_close(got[0], model_logits, 1e-6)
    merged = copy.deepcopy(lora).merge_and_unload().eval()
    expected = numbers(merged, inputs)
    assert_equal(got[:2], expected[:2], 1e-5)
    assert_same(got[2], expected[2], model_logits, 1e-4)
    frozen = {name: parameter.requires_grad for name, parameter in lora.named_parameters()}
    assert set(frozen.values()) == {True, False}
    numbers(lora.train(), inputs)
    assert frozen == {name: parameter.requires_grad for name, parameter in lora.named_parameters()}
    assert lora.training
    assert all(parameter.grad is None for parameter in lora.parameters())


@pytest.fixture
def process_group(tmp_path):
    """This process as a world of one, met at a file; gone again afterwards."""
    if not torch.distributed.is_available():
        pytest.skip("this torch has no distributed package")
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1
    )
    yield
    torch.distributed.destroy_process_group()


def test_distributed_data_parallel(process_group):
    model = model_of("bert")
    inputs = inputs_of(model)
    expected = numbers(model, inputs)
    wrapped = nn.parallel.DistributedDataParallel(model)
    assert_equal(numbers(wrapped, inputs), expected, 1e-7)
    assert all(parameter.requires_grad for parameter in wrapped.parameters())
    wrapped(**inputs).logits.sum().backward()  # still trains
    assert any(parameter.grad is not None for parameter in model.parameters())


def test_data_parallel():
    model = model_of("gpt2")
    inputs = inputs_of(model)
    assert_equal(numbers(nn.DataParallel(model), inputs), numbers(model, inputs), 1e-7)


def refuse_to_compile(*args, **kwargs):
    raise AssertionError("the model was compiled")


def test_torch_compile():
    model = model_of("bert")
    inputs = inputs_of(model)
    expected = numbers(model, inputs)
    compiled = torch.compile(model, backend=refuse_to_compile)
    assert type(compiled).__name__ == "OptimizedModule"
    assert_equal(numbers(compiled, inputs), expected, 1e-7)


def times(factor):
    """A compiler's backend whose code returns floating-point results multiplied by a factor."""

    def backend(graph, inputs):
        def run(*args):
            return tuple(item * factor if torch.is_floating_point(item) else item for item in graph(*args))

        return run

    return backend


@pytest.mark.slow
@pytest.mark.parametrize("in_place", [False, True])
def test_compiled_code_is_compared_as_it_runs(in_place):
    for factor in (1.0, 2.0):
        torch.compiler.reset()
        model = model_of("bert")
        if in_place:
            model.compile(backend=times(factor))
        compiled = model if in_place else torch.compile(model, backend=times(factor))
        if factor == 1.0:
            assert_equal(numbers(compiled, inputs_of(model)), numbers(model_of("bert"), inputs_of(model)), 1e-6)
            continue
        with pytest.raises(af.UnsupportedModelError, match="off by"):
            af.cut(compiled)
    torch.compiler.reset()


@pytest.mark.parametrize("training", [False, True])
def test_a_wrapper_that_computes_something_else_is_refused(training):
    class DataParallel(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, **inputs):
            output = self.module(**inputs)
            output.logits = output.logits.flip(-1)
            return output

    with pytest.raises(af.UnsupportedModelError, match="off by"):
        af.cut(DataParallel(model_of("bert")).train(training))


def test_a_model_compiled_in_place():
    model = model_of("bert")
    inputs = inputs_of(model)
    expected = numbers(model, inputs)
    model.compile(backend=refuse_to_compile)
    model.bert.encoder.layer[0].compile(backend=refuse_to_compile)
    before = [module._compiled_call_impl for module in model.modules()]
    assert_equal(numbers(model, inputs), expected, 1e-7)
    assert [module._compiled_call_impl for module in model.modules()] == before
    with pytest.raises(Exception, match="the model was compiled"):
        model(**inputs)


def test_wrapped_twice(process_group):
    model = model_of("bert")
    inputs = inputs_of(model)
    expected = numbers(model, inputs)
    wrapped = torch.compile(nn.parallel.DistributedDataParallel(model), backend=refuse_to_compile)
    assert_equal(numbers(wrapped, inputs), expected, 1e-7)


def test_dynamic_quantisation_is_supported_or_refused():
    quantize = getattr(getattr(torch.ao, "quantization", None), "quantize_dynamic", None)
    if quantize is None or not torch.backends.quantized.supported_engines:
        pytest.skip("this torch has no dynamic quantisation")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = quantize(model_of("bert"), {nn.Linear}, dtype=torch.qint8)
            with torch.no_grad():
                model_logits = model(**inputs_of(model)).logits
        except (RuntimeError, AttributeError) as error:
            pytest.skip(f"dynamic quantisation does not run here: {error}")
        try:
            cut = af.cut(model)
        except af.UnsupportedModelError as error:
            assert "quanti" in str(error)  # noqa: PT017 (refused with the reason, or right)
            return
        capture = cut.capture(**inputs_of(model))
    assert_close(capture.logits, model_logits, 1e-6)
    slow = af.Cut(cut.adapter.with_tail("full forward"), None, "", cut.memory)
    keep = keeps_of(capture)
    expected = slow.rerun(slow.capture(**inputs_of(model)), keep=keep)
    assert_same(cut.rerun(capture, keep=keep), expected, model_logits, 0.1)
