"""The watch recognises every way in which models multiply attention weights with values, and replaces the result."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnfaith.adapters.attention_watch import AttentionWatch

B, H, Q, N, D = 2, 4, 5, 7, 3


def draw(*sizes, seed=0):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def parts():
    """Scores [B, H, Q, N] and values [B, H, N, D]."""
    return draw(B, H, Q, N), draw(B, H, N, D, seed=1)


def softmax_matmul():
    scores, values = parts()
    return scores.softmax(-1) @ values, scores.softmax(-1), values


def functional_matmul_after_dropout_and_casts():
    scores, values = parts()
    weights = F.dropout(F.softmax(scores, dim=-1, dtype=torch.float64).to(values.dtype), 0.5, training=False)
    return torch.matmul(weights.type_as(values), values), scores.softmax(-1), values


def softmax_module():
    scores, values = parts()
    return torch.matmul(nn.Softmax(dim=-1)(scores), values), scores.softmax(-1), values


def bmm_of_merged_heads():
    scores, values = parts()
    weights = scores.flatten(0, 1).softmax(-1)
    return torch.bmm(weights, values.flatten(0, 1)), scores.softmax(-1), values


def bmm_after_reshaping():
    scores, values = parts()
    weights = scores.softmax(-1).view(B * H, Q, N)
    return weights.bmm(values.reshape(B * H, N, D)), scores.softmax(-1), values


def bmm_without_heads():
    scores, values = draw(B, Q, N), draw(B, N, D, seed=1)
    return torch.bmm(scores.softmax(-1), values), scores.softmax(-1).unsqueeze(1), values.unsqueeze(1)


def weighted_sum():
    scores, values = draw(B, N, 1), draw(B, N, D, seed=1)
    weights = scores.softmax(1)
    return (weights * values).sum(1), weights.transpose(1, 2).unsqueeze(1), values.unsqueeze(1)


def weighted_sum_with_unsqueeze():
    scores, values = draw(B, N), draw(B, N, D, seed=1)
    weights = scores.softmax(-1)
    return torch.sum(weights.unsqueeze(-1) * values, dim=1), weights[:, None, None], values.unsqueeze(1)


def einsum(equation):
    """Weights b h i j, values b h j d, laid out as the letters say."""

    def model():
        scores, values = parts()
        left, rest = equation.split(",")
        right, _ = rest.split("->")
        if set(left) >= {"j", "i"}:
            first = scores.permute(["bhij".index(letter) for letter in left]).softmax(left.index("j"))
            second = values.permute(["bhjd".index(letter) for letter in right])
        else:
            first = values.permute(["bhjd".index(letter) for letter in left])
            second = scores.permute(["bhij".index(letter) for letter in right]).softmax(right.index("j"))
        return torch.einsum(equation, first, second), scores.softmax(-1), values

    return model


EINSUMS = ["bhij,bhjd->bhid", "bhij,bjhd->bihd", "ijbh,jbhd->ibhd", "bhij,bhjd->bihd", "bjhd,bhij->bihd"]
HAND_MADE = {
    function.__name__: function
    for function in (
        softmax_matmul,
        functional_matmul_after_dropout_and_casts,
        softmax_module,
        bmm_of_merged_heads,
        bmm_after_reshaping,
        bmm_without_heads,
        weighted_sum,
        weighted_sum_with_unsqueeze,
    )
} | {equation: einsum(equation) for equation in EINSUMS}


def watched(run, batch=B, answer=None, **options):
    """What a watch sees while ``run`` runs, and what ``run`` returns under it."""
    attentions = []

    def on_attention(attention):
        attentions.append(attention)
        return None if answer is None else answer(attention)

    with AttentionWatch(batch, on_attention, **options):
        result = run()
    return attentions, result


def check_product(attention, weights, values):
    """Weights, log-weights, values and result in the common layout [B, H, ., .]."""
    batch, heads, queries, items = weights.shape
    assert attention.shape == (batch, heads, queries, items)
    got, logs = attention.distributions(None)
    torch.testing.assert_close(got, weights, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(logs.exp(), weights, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(attention.values(), values, rtol=0, atol=0)
    torch.testing.assert_close(attention.layout.read(attention.output), weights @ values, rtol=1e-9, atol=1e-12)
    rows = torch.arange(batch).unsqueeze(-1) % queries
    some, _ = attention.distributions(rows)
    for text in range(batch):
        torch.testing.assert_close(some[text, :, 0], weights[text, :, rows[text, 0]], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", HAND_MADE)
def test_a_softmax_and_a_product(name):
    expected, weights, values = HAND_MADE[name]()
    attentions, (result, _, _) = watched(HAND_MADE[name])
    assert torch.equal(result, expected), "watching alone changes nothing"
    assert len(attentions) == 1
    assert not attentions[0].fused
    check_product(attentions[0], weights, values)


@pytest.mark.parametrize("name", HAND_MADE)
def test_what_the_callback_returns_replaces_the_result(name):
    expected, weights, values = HAND_MADE[name]()

    def doubled(attention):
        return attention.layout.write(2 * (weights @ values))

    _, (result, _, _) = watched(HAND_MADE[name], answer=doubled)
    torch.testing.assert_close(result, 2 * expected, rtol=1e-9, atol=1e-12)


def literal(query, key, mask=None, scale=None):
    scores = query @ key.transpose(-1, -2) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1)


BOOL = draw(B, 1, Q, N, seed=5) < 0.8
FUSED = {
    "plain": ({}, {}),
    "bool mask": ({"attn_mask": BOOL}, {"mask": BOOL}),
    "bool mask of two dimensions": ({"attn_mask": BOOL[0, 0]}, {"mask": BOOL[0, 0]}),
    "float mask": ({"attn_mask": draw(B, H, Q, N, seed=6)}, {"mask": draw(B, H, Q, N, seed=6)}),
    "float mask of one row": ({"attn_mask": draw(B, 1, 1, N, seed=6)}, {"mask": draw(B, 1, 1, N, seed=6)}),
    "causal": ({"is_causal": True}, {"mask": torch.ones(Q, N).tril().bool()}),
    "scale": ({"scale": 0.3}, {"scale": 0.3}),
}


@pytest.mark.parametrize("name", FUSED)
def test_a_fused_attention(name):
    options, same = FUSED[name]
    query, key, values = draw(B, H, Q, D), draw(B, H, N, D, seed=1), draw(B, H, N, D, seed=2)
    expected = F.scaled_dot_product_attention(query, key, values, **options)
    attentions, result = watched(lambda: F.scaled_dot_product_attention(query, key, values, **options))
    assert torch.equal(result, expected)
    (attention,) = attentions
    assert attention.fused
    weights = literal(query, key, **same)
    check_product(attention, weights, values)


def test_a_fused_attention_with_a_fully_masked_row():
    query, key, values = draw(B, H, Q, D), draw(B, H, N, D, seed=1), draw(B, H, N, D, seed=2)
    mask = torch.ones(B, 1, Q, N, dtype=torch.bool)
    mask[0, 0, 2] = False
    (attention,), _ = watched(lambda: F.scaled_dot_product_attention(query, key, values, attn_mask=mask))
    weights, logs = attention.distributions(None)
    assert weights[0, :, 2].eq(0).all()
    assert logs[0, :, 2].eq(-torch.inf).all()
    assert weights.isfinite().all()


def test_grouped_heads():
    query, key, values = draw(B, H, Q, D), draw(B, 2, N, D, seed=1), draw(B, 2, N, D, seed=2)
    (attention,), _ = watched(lambda: F.scaled_dot_product_attention(query, key, values, enable_gqa=True))
    key, values = key.repeat_interleave(2, 1), values.repeat_interleave(2, 1)
    check_product(attention, literal(query, key), values)


def test_a_fused_attention_of_three_dimensions():
    query, key, values = draw(B, Q, D), draw(B, N, D, seed=1), draw(B, N, D, seed=2)
    (attention,), _ = watched(lambda: F.scaled_dot_product_attention(query, key, values))
    check_product(attention, literal(query, key).unsqueeze(1), values.unsqueeze(1))


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_torchs_own_multi_head_attention(need_weights, batch_first, masked):
    torch.manual_seed(0)
    module = nn.MultiheadAttention(8, H, batch_first=batch_first).double()  # training mode: without the fused fast path
    states = draw(B, N, 8) if batch_first else draw(N, B, 8)
    padding = torch.zeros(B, N, dtype=torch.bool)
    padding[1, -2:] = masked

    def run():
        return module(states, states, states, key_padding_mask=padding, need_weights=need_weights)[0]

    attentions, result = watched(run)
    torch.testing.assert_close(result, run())
    (attention,) = attentions
    _, per_head = module(states, states, states, key_padding_mask=padding, average_attn_weights=False)
    got, _ = attention.distributions(None)
    torch.testing.assert_close(got, per_head, rtol=1e-9, atol=1e-9)
    _, zero = watched(run, answer=lambda attention: attention.layout.write(torch.zeros(B, H, N, 2).double()))
    torch.testing.assert_close(zero, module.out_proj.bias.expand_as(zero))


def sparse(scores):
    """A hand-written normaliser: scores above their mean, as shares."""
    above = (scores - scores.mean(-1, keepdim=True)).clamp_min(0)
    return above / above.sum(-1, keepdim=True)


def test_any_distribution_is_recognised_only_on_request():
    scores, values = draw(B, Q, N), draw(B, N, D, seed=1)
    attentions, _ = watched(lambda: sparse(scores) @ values)
    assert attentions == []
    (attention,), _ = watched(lambda: sparse(scores) @ values, any_distribution=True)
    check_product(attention, sparse(scores).unsqueeze(1), values.unsqueeze(1))


def test_other_products_are_left_alone():
    states, experts = draw(B * N, 8), draw(6, 8, D, seed=1)
    router = draw(8, 6, seed=2)

    def mixture():
        shares = F.softmax(states @ router, dim=-1)  # over experts
        top, chosen = shares.topk(2, dim=-1)
        top = top / top.sum(-1, keepdim=True)
        outputs = torch.stack([states @ expert for expert in experts], dim=1)
        picked = outputs.gather(1, chosen.unsqueeze(-1).expand(-1, -1, D))
        return (top.unsqueeze(-1) * picked).sum(1)

    def dense_mixture():
        shares = F.softmax(states @ router, dim=-1)  # one distribution over experts for each token, not for each text
        outputs = torch.einsum("td,edh->teh", states, experts)
        return (shares.unsqueeze(-1) * outputs).sum(1)

    def plain():
        return (states @ router).relu() @ draw(6, 6), states.softmax(-1), (states.softmax(-1) * 2).sum()

    for run in (mixture, dense_mixture, plain):
        attentions, _ = watched(run)
        assert attentions == [], run.__name__


def test_a_watch_works_only_while_it_is_entered():
    scores, values = parts()
    attentions = []
    watch = AttentionWatch(B, attentions.append)
    with watch:
        weights = scores.softmax(-1)
    assert torch.equal(weights @ values, scores.softmax(-1) @ values)
    assert attentions == []
    assert torch._C._len_torch_function_stack() == 0
    with pytest.raises(ZeroDivisionError), watch:
        1 / 0  # noqa: B018
    assert torch._C._len_torch_function_stack() == 0
