"""LRP-lite on whole models, against implementations of their own, written from the equations."""

import pytest
import torch
import torch.nn.functional as F

import attnfaith as af
from attnfaith.tiny_models import tiny_model
from tests.helpers.comparing import inputs_of
from tests.helpers.methods import ask


def close(got, expected, tolerance=1e-9):
    scale = expected.abs().max().item()
    assert scale > 1e-3
    off = (got - expected).abs().max().item() / scale
    assert off <= tolerance, f"off by {off:.1e} of the largest relevance"


def share(parts, total, r):
    """Relevance of a sum, shared out in proportion: parts [K, D] of a total [D] that has relevance [D]."""
    return parts / total * r


def linear_back(weight, x, z, r):
    """From z = W x + ... with relevance r to x."""
    return (weight * x / z.unsqueeze(-1) * r.unsqueeze(-1)).sum(0)


def lstm_relevance(x, weights, r_out):
    """Arras et al. 2017: words [T, E], relevance of the states [T, H] -> of the words [T, E]; gates take nothing."""
    w, u, b, c = weights
    hidden = cell = x.new_zeros(u.shape[1])
    seen = []
    for word in x:
        i, f, g, o = (w @ word + b + u @ hidden + c).chunk(4)
        i, f, o = torch.sigmoid(i), torch.sigmoid(f), torch.sigmoid(o)
        before, cell_before = hidden, cell
        cell = f * cell + i * torch.tanh(g)
        hidden = o * torch.tanh(cell)
        seen.append((word, before, f * cell_before, i * torch.tanh(g), cell, g))
    wg, ug = w.chunk(4)[2], u.chunk(4)[2]
    result = torch.zeros_like(x)
    r_hidden = r_cell = torch.zeros_like(hidden)
    for t in reversed(range(len(x))):
        word, before, kept, entered, cell, g = seen[t]
        r = r_out[t] + r_hidden + r_cell  # h = o tanh(c): the gate o takes nothing, tanh passes all
        r_cell, r_g = share(kept, cell, r), share(entered, cell, r)
        result[t] = linear_back(wg, word, g, r_g)
        r_hidden = linear_back(ug, before, g, r_g)
    return result


def gru_relevance(x, weights, r_out):
    """The same rules on a GRU: the reset and the update gate take nothing."""
    w, u, b, c = weights
    hidden = x.new_zeros(u.shape[1])
    seen = []
    for word in x:
        (ir, iz, new), (hr, hz, hn) = (w @ word + b).chunk(3), (u @ hidden + c).chunk(3)
        r, z = torch.sigmoid(ir + hr), torch.sigmoid(iz + hz)
        a = new + r * hn
        before = hidden
        hidden = (1 - z) * torch.tanh(a) + z * hidden
        seen.append((word, before, (1 - z) * torch.tanh(a), z * before, hidden, a, r))
    wn, un = w.chunk(3)[2], u.chunk(3)[2]
    result = torch.zeros_like(x)
    carried = torch.zeros_like(hidden)
    for t in reversed(range(len(x))):
        word, before, entered, kept, state, a, gate = seen[t]
        r = r_out[t] + carried
        r_a = share(entered, state, r)
        result[t] = linear_back(wn, word, a, r_a)
        carried = share(kept, state, r) + linear_back(gate.unsqueeze(-1) * un, before, a, r_a)
    return result


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_recurrent_layers_follow_the_published_rules(kind):
    torch.manual_seed(0)
    settings = af.models.AttentionClassifierConfig(
        vocab_size=50, num_labels=3, embedding_size=6, encoder=kind, hidden_size=5
    )
    model = af.models.AttentionClassifier(settings).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.7)
    inputs, cut = inputs_of(model, lengths=(7, 4, 3)), af.cut(model)
    for target in (0, 2):
        _, scores = ask(cut, "input", "lrp", inputs, target=target, output="logit", epsilon=0.0)
        _, upper = ask(cut, "attention", "lrp", inputs, target=target, output="logit", epsilon=0.0)
        with torch.no_grad():
            seen = model.attend(**inputs)
            for text, length in enumerate((7, 4, 3)):
                values, weights = seen.values[text, :length], seen.weights[text, :length]
                r_values = weights.unsqueeze(-1) * values * model.classifier.weight[target]
                close(upper.values[text, :length], r_values.sum(-1))
                words = model.embeddings(inputs["input_ids"][text, :length])
                result, side = 0, {"lstm": lstm_relevance, "gru": gru_relevance}[kind]
                for suffix, turn, half in (("", False, 0), ("_reverse", True, 1)):
                    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
                    layer = [getattr(model.encoder.rnn, f"{name}_l0{suffix}") for name in names]
                    r_out = r_values.chunk(2, dim=-1)[half]
                    flipped = side(words.flip(0), layer, r_out.flip(0)).flip(0) if turn else side(words, layer, r_out)
                    result = result + flipped
                close(scores.values[text, :length], result.sum(-1))


def constant(x, value):
    """f(x), passing relevance in proportion."""
    return x * (value / x).detach()


def normed(x, norm, centre=True):
    eps = getattr(norm, "eps", getattr(norm, "variance_epsilon", None))
    centred = x - x.mean(-1, keepdim=True) if centre else x
    size = (centred.square().mean(-1, keepdim=True) + eps).sqrt().detach()
    return centred / size * norm.weight + (norm.bias if centre else 0)


def bert_logits(model, x, attentions):
    """From word vectors [L, E]; attention as given."""
    embeddings = model.bert.embeddings
    x = x + embeddings.position_embeddings.weight[: len(x)] + embeddings.token_type_embeddings.weight[0]
    x = normed(x, embeddings.LayerNorm)
    for layer, weights in zip(model.bert.encoder.layer, attentions, strict=True):
        attention, out = layer.attention.self, layer.attention.output
        values = (x @ attention.value.weight.T + attention.value.bias).unflatten(-1, (4, -1)).transpose(0, 1)
        mixed = (weights @ values).transpose(0, 1).flatten(1)
        x = normed(x + mixed @ out.dense.weight.T + out.dense.bias, out.LayerNorm)
        inner = x @ layer.intermediate.dense.weight.T + layer.intermediate.dense.bias
        inner = constant(inner, F.gelu(inner))
        x = normed(x + inner @ layer.output.dense.weight.T + layer.output.dense.bias, layer.output.LayerNorm)
    pooled = x[0] @ model.bert.pooler.dense.weight.T + model.bert.pooler.dense.bias
    return constant(pooled, torch.tanh(pooled)) @ model.classifier.weight.T + model.classifier.bias


def llama_logits(model, x, attentions):
    for layer, weights in zip(model.model.layers, attentions, strict=True):
        attention, mlp = layer.self_attn, layer.mlp
        values = (normed(x, layer.input_layernorm, False) @ attention.v_proj.weight.T).unflatten(-1, (4, -1))
        values = values.transpose(0, 1)
        x = x + (weights @ values).transpose(0, 1).flatten(1) @ attention.o_proj.weight.T
        inner = normed(x, layer.post_attention_layernorm, False)
        gate = F.silu(inner @ mlp.gate_proj.weight.T).detach()
        x = x + (gate * (inner @ mlp.up_proj.weight.T)) @ mlp.down_proj.weight.T
    return normed(x, model.model.norm, False)[-1] @ model.score.weight.T


def gpt2_logits(model, x, attentions):
    x = x + model.transformer.wpe.weight[: len(x)]
    for layer, weights in zip(model.transformer.h, attentions, strict=True):
        joined = normed(x, layer.ln_1) @ layer.attn.c_attn.weight + layer.attn.c_attn.bias
        values = joined.chunk(3, dim=-1)[2].unflatten(-1, (4, -1)).transpose(0, 1)
        x = x + (weights @ values).transpose(0, 1).flatten(1) @ layer.attn.c_proj.weight + layer.attn.c_proj.bias
        inner = normed(x, layer.ln_2) @ layer.mlp.c_fc.weight + layer.mlp.c_fc.bias
        inner = constant(inner, F.gelu(inner, approximate="tanh"))
        x = x + inner @ layer.mlp.c_proj.weight + layer.mlp.c_proj.bias
    return normed(x, model.transformer.ln_f)[-1] @ model.score.weight.T


BY_HAND = {"bert": bert_logits, "llama": llama_logits, "gpt2": gpt2_logits}


@pytest.mark.parametrize("output", ["logit", "log_odds"])
@pytest.mark.parametrize("family", BY_HAND)
def test_transformers_against_an_implementation_of_our_own(family, output):
    model = tiny_model(family, dtype=torch.float64)
    eager = tiny_model(family, dtype=torch.float64, attn_implementation="eager")
    inputs, cut = inputs_of(model, lengths=(9, 6)), af.cut(model)
    _, scores = ask(cut, "input", "lrp", inputs, target=1, output=output, epsilon=0.0)
    for text, length in enumerate((9, 6)):
        ids = inputs["input_ids"][text : text + 1, :length]
        with torch.no_grad():
            seen = eager(ids, output_attentions=True)
            vectors = model.get_input_embeddings()(ids)[0]
        leaf = vectors.requires_grad_()
        logits = BY_HAND[family](model, leaf, [layer[0] for layer in seen.attentions])
        close(logits.detach(), seen.logits[0], 1e-5 if family == "llama" else 1e-9)  # its norm computes in float32
        other = max((0, 2), key=lambda index: float(logits[index].detach()))
        number = logits[1] - (logits[other] if output == "log_odds" else 0)
        (gradient,) = torch.autograd.grad(number, leaf)
        expected = (gradient * vectors).sum(-1).detach()
        close(scores.values[text, :length], expected, 1e-5 if family == "llama" else 1e-8)


def without_positions(family):
    model = tiny_model(family, dtype=torch.float64)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "position_embeddings" in name or "token_type_embeddings" in name or "wpe" in name:
                parameter.zero_()
    return model


@pytest.mark.parametrize("output", ["logit", "log_odds"])
@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "distilbert"])
def test_relevance_and_what_biases_absorbed_add_up(family, output):
    model = without_positions(family)
    inputs = inputs_of(model)
    tolerance = 1e-5 if family == "llama" else 1e-9
    request, scores = ask(af.cut(model), "input", "lrp", inputs, target=1, output=output, epsilon=0.0)
    whole = request.quantity(request.capture.logits)
    if family == "llama":  # has no biases at all
        close(scores.values.sum(-1), whole, tolerance)
        return
    assert scores.absorbed.abs().min() > 1e-6
    close(scores.values.sum(-1) + scores.absorbed, whole, tolerance)
    close(scores.gap, scores.absorbed, 1e-6)


def test_at_the_default_epsilon_little_is_lost():
    model = without_positions("bert")
    inputs, cut = inputs_of(model), af.cut(model)
    exact, default = (
        ask(cut, "input", "lrp", inputs, target=1, output="logit", **settings)[1] for settings in ({"epsilon": 0.0}, {})
    )
    assert 0 < (exact.values - default.values).abs().max() < 1e-2 * exact.values.abs().max()
