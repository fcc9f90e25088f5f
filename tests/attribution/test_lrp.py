"""LRP-lite, rule by rule: explicit messages for linear layers, convolutions, gates and pointwise functions."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transformers.activations import ACT2FN

import attnfaith as af
from attnfaith.attribution.lrp.rules import relevance_rules
from tests.helpers.comparing import inputs_of, model_of
from tests.helpers.methods import ask, in_double


def relevance(module, given, epsilon=0.0):
    """Input times gradient of the module's summed result under the rules; the rules too, for what biases absorbed."""
    leaf = given.clone().requires_grad_()
    with torch.enable_grad(), relevance_rules(module, epsilon, given.shape[:2]) as rules:
        output = module(leaf)
    (gradient,) = torch.autograd.grad(output.sum(), leaf)
    return gradient * given, rules, output.detach()


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def messages(weight, bias, x, r, epsilon):
    """Bach et al. 2015, equation 58: from the result of one linear layer [J] to its input [I], message by message."""
    z = [sum(float(weight[j, i] * x[i]) for i in range(len(x))) + float(bias[j]) for j in range(len(r))]
    scale = sum(map(abs, z)) / len(z)
    result, absorbed = [0.0] * len(x), 0.0
    for j, total in enumerate(z):
        stable = total + epsilon * scale * (1 if total >= 0 else -1)
        for i in range(len(x)):
            result[i] += float(weight[j, i] * x[i]) / stable * float(r[j])
        absorbed += float(bias[j]) / stable * float(r[j])
    return torch.tensor(result, dtype=torch.float64), absorbed


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.25])
def test_linear_layers_use_the_epsilon_rule(epsilon):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 6), nn.Tanh(), nn.Linear(6, 2)).double()
    given = drawn(2, 3, 5)
    got, rules, output = relevance(model, given, epsilon)
    for text in range(2):
        total = 0.0
        model.requires_grad_(False)
        for index in range(3):
            with torch.no_grad():
                inputs = [given[text, index]]
                for layer in model:
                    inputs.append(layer(inputs[-1]))
            r = inputs[-1]
            for layer, x in zip(reversed(model), reversed(inputs[:-1]), strict=True):
                if isinstance(layer, nn.Linear):  # a pointwise function passes all relevance on
                    r, absorbed = messages(layer.weight, layer.bias, x, r, epsilon)
                    total += absorbed
            torch.testing.assert_close(got[text, index], r, rtol=1e-9, atol=1e-12)
        assert float(rules.absorbed[text]) == pytest.approx(total, rel=1e-9)
    if epsilon == 0:
        torch.testing.assert_close(got.sum((1, 2)) + rules.absorbed, output.sum((1, 2)), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_new", "gelu_pytorch_tanh", "silu", "tanh", "quick_gelu"])
def test_a_pointwise_function_passes_everything(activation):
    module = ACT2FN[activation]
    given = drawn(2, 3, 5)
    given[0, 0, 0], given[0, 0, 1] = 0.0, -0.0
    got, _, output = relevance(module, given)
    torch.testing.assert_close(got, output, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(output, module(given), rtol=1e-12, atol=0)
    assert got.isfinite().all()


@pytest.mark.parametrize("name", ["relu", "gelu", "silu", "tanh", "leaky_relu", "elu"])
def test_a_pointwise_function_takes_its_limit_at_zero(name):
    class Shifted(nn.Module):
        def forward(self, x):
            return getattr(F, name)(x - 1.0)  # 0 where x is 1

    leaf = torch.ones(1, 1, 3, dtype=torch.float64)
    got, _, _ = relevance(Shifted(), leaf)
    expected = {"relu": 0.5, "gelu": 0.5, "silu": 0.5, "tanh": 1.0, "leaky_relu": 0.505, "elu": 1.0}[name]
    torch.testing.assert_close(got, torch.full_like(leaf, expected), rtol=1e-3, atol=0)


class Gated(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.form = form
        self.gate, self.signal = nn.Linear(5, 4, bias=False), nn.Linear(5, 4, bias=False)
        self.silu = ACT2FN["silu"]

    def forward(self, x):
        gate, signal = self.gate(x), self.signal(x)
        return {
            "glu": lambda: F.glu(torch.cat((signal, gate), dim=-1), dim=-1),
            "sigmoid": lambda: torch.sigmoid(gate) * signal,
            "method": lambda: signal * gate.sigmoid(),
            "silu": lambda: F.silu(gate) * signal,
            "module": lambda: self.silu(gate) * signal,
            "gelu last": lambda: signal * F.gelu(gate),
        }[self.form]()


@pytest.mark.parametrize("form", ["glu", "sigmoid", "method", "silu", "module", "gelu last"])
def test_in_a_gated_product_the_signal_takes_all(form):
    torch.manual_seed(0)
    model, given = Gated(form).double(), drawn(2, 3, 5)
    got, _, output = relevance(model, given)
    with torch.no_grad():
        signal = model.signal(given)
        factor = output / signal
        for index in range(5):
            expected = (factor * model.signal.weight[:, index] * given[..., index : index + 1]).sum(-1)
            torch.testing.assert_close(got[..., index], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_the_normaliser_is_a_constant(norm):
    torch.manual_seed(0)
    model = (nn.LayerNorm(5) if norm == "layer" else nn.RMSNorm(5)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    given = drawn(2, 3, 5)
    got, rules, output = relevance(model, given)
    with torch.no_grad():
        torch.testing.assert_close(output, model(given), rtol=1e-9, atol=1e-12)
        for x, r in zip(given.flatten(0, 1), got.flatten(0, 1), strict=True):
            mean = x.mean() if norm == "layer" else 0.0
            size = ((x - mean).square().mean() + (model.eps or torch.finfo(x.dtype).eps)).sqrt()
            share = model.weight / size
            expected = x * (share - share.mean() if norm == "layer" else share)
            torch.testing.assert_close(r, expected, rtol=1e-9, atol=1e-12)
    if norm == "layer":
        torch.testing.assert_close(rules.absorbed, model.bias.sum().expand(2) * 3, rtol=1e-9, atol=1e-12)


def test_convolutions_send_messages_back():
    torch.manual_seed(0)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution = nn.Conv1d(3, 4, 3, padding=1)

        def forward(self, x):
            return torch.relu(self.convolution(x.transpose(1, 2))).transpose(1, 2)

    model, given = Model().double(), drawn(2, 6, 3)
    got, rules, output = relevance(model, given)
    weight, expected, absorbed = model.convolution.weight, torch.zeros_like(given), torch.zeros(2, dtype=torch.float64)
    with torch.no_grad():
        for text in range(2):
            for index in range(6):
                for channel in range(4):
                    r = output[text, index, channel]
                    bias = model.convolution.bias[channel]
                    reach = [(index + k - 1, k) for k in range(3) if 0 <= index + k - 1 < 6]
                    z = bias + sum(given[text, at] @ weight[channel, :, k] for at, k in reach)
                    for at, k in reach:
                        expected[text, at] += given[text, at] * weight[channel, :, k] / z * r
                    absorbed[text] += bias / z * r
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(rules.absorbed, absorbed, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["none", "mlp", "conv"])
def test_without_biases_relevance_is_conserved(kind):
    config = {"encoder": kind, "activation": "relu", "hidden_size": 8} | (
        {"kernels": [(1, 3), (3, 5)]} if kind == "conv" else {}
    )
    torch.manual_seed(0)
    settings = af.models.AttentionClassifierConfig(vocab_size=50, num_labels=3, embedding_size=6, **config)
    model = af.models.AttentionClassifier(settings).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.zero_() if name.endswith("bias") else parameter.normal_()
    inputs = inputs_of(model)
    for level in ("attention", "input"):
        for output in ("logit", "log_odds"):
            request, scores = ask(af.cut(model), level, "lrp", inputs, output=output, epsilon=0.0)
            whole = request.quantity(request.capture.logits)
            assert whole.abs().min() > 1e-2
            torch.testing.assert_close(scores.values.sum(-1), whole, rtol=1e-10, atol=1e-10)
            torch.testing.assert_close(scores.gap, torch.zeros_like(whole), rtol=0, atol=1e-10)


@pytest.mark.parametrize("family", "bert gpt2 llama t5 bart xlnet FLANrnn HANrnn FLANconv modernbert".split())
def test_the_forward_values_are_the_model_s_own(family):
    model, inputs = in_double(family).model, in_double(family).inputs
    with torch.no_grad():
        expected = model(**inputs).logits
    for epsilon in (0.0, 1e-6, 0.5):
        with torch.enable_grad(), relevance_rules(model, epsilon, inputs["input_ids"].shape):
            got = model(**inputs).logits.detach()
        exact = 1e-12 if expected.dtype == torch.float64 else 1e-6
        assert (got - expected).abs().max() <= exact * expected.abs().max()


def test_the_conservation_error_is_reported():
    model, inputs = model_of("FLANrnn", torch.float64), inputs_of(model_of("FLANrnn"))
    cut = af.cut(model)
    small, large = (ask(cut, "input", "lrp", inputs, epsilon=epsilon) for epsilon in (0.0, 0.3))
    for request, scores in (small, large):
        whole = request.quantity(request.capture.logits)
        torch.testing.assert_close(scores.gap, whole - scores.values.sum(-1), rtol=1e-9, atol=1e-12)
    alone = {name: value[:1] for name, value in inputs.items()}
    request, scores = ask(cut, "input", "lrp", alone, epsilon=0.0)
    torch.testing.assert_close(scores.gap, scores.absorbed, rtol=1e-8, atol=1e-10)  # nothing else is lost
    assert (large[1].gap - small[1].gap).abs().max() > 1e-2


@pytest.mark.parametrize("activation", [nn.ReLU, nn.SiLU, nn.ELU])
def test_an_activation_in_place_is_the_same_rule(activation):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), activation(), nn.Linear(7, 3)).double()
    model.requires_grad_(False)
    expected, _, _ = relevance(model, drawn(2, 3, 5))
    model[1].inplace = True
    got, _, _ = relevance(model, drawn(2, 3, 5))
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-12)


def test_a_layer_s_result_may_be_changed_in_place():
    class Changed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 4)

        def forward(self, x):
            output = self.layer(x.transpose(0, 1)).transpose(0, 1)
            output *= 2.0
            output += 0.5
            return output

    torch.manual_seed(0)
    model, given = Changed().double().requires_grad_(False), drawn(2, 3, 5)
    got, _, _ = relevance(model, given)
    torch.testing.assert_close(got, given * 2 * model.layer.weight.sum(0), rtol=1e-9, atol=1e-12)
