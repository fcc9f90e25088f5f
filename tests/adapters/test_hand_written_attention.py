"""Hand-written models whose attention has several heads or rows: torch's layers, learnt queries, attention pooling."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import attnfaith as af
from attnfaith.functional.erasure import erase
from tests.helpers.comparing import assert_close, assert_same, keeps_of
from tests.helpers.own_models import CLASSES, PAD, VOCABULARY, WIDTH, batch, check_against, drawn


class LearntQuery(nn.Module):
    """nn.MultiheadAttention whose query is a parameter."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH, padding_idx=PAD)
        self.query = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.attention = nn.MultiheadAttention(WIDTH, 3, batch_first=True)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, input_ids, attention_mask):
        states = self.embed(input_ids)
        query = self.query.expand(len(states), -1, -1)
        context, _ = self.attention(states[:, :0].sum(1, keepdim=True) + query, states, states, attention_mask == 0)
        return self.head(context[:, 0])

    def literal(self, weights):
        states = self.embed(batch()["input_ids"])
        _, _, project = self.attention.in_proj_weight.chunk(3)
        values = F.linear(states, project, self.attention.in_proj_bias.chunk(3)[2]).unflatten(-1, (3, -1))
        context = torch.einsum("bkhn,bnhd->bkhd", weights, values).flatten(2)
        return self.head(self.attention.out_proj(context))


@pytest.mark.parametrize("training", [True, False])
def test_multi_head_attention_with_a_learnt_query(training):
    model = drawn(LearntQuery).train(training)
    _, capture = check_against(model, model.literal)
    assert capture.shape == (2, 3, 7)


class Encoder(nn.Module):
    """torch's own Transformer encoder; classifies the first position, or the mean of the real ones."""

    def __init__(self, mean=False, norm_first=False, batch_first=True):
        super().__init__()
        self.mean, self.batch_first = mean, batch_first
        self.embed = nn.Embedding(VOCABULARY, WIDTH, padding_idx=PAD)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 3, 20, 0.1, batch_first=batch_first, norm_first=norm_first, activation="gelu"
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, input_ids, attention_mask):
        states = self.embed(input_ids)
        states = states if self.batch_first else states.transpose(0, 1)
        states = self.encoder(states, src_key_padding_mask=attention_mask == 0)
        states = states if self.batch_first else states.transpose(0, 1)
        if not self.mean:
            return self.head(states[:, 0])
        real = attention_mask.unsqueeze(-1).to(states.dtype)
        return self.head((states * real).sum(1) / real.sum(1))

    def literal(self, weights):
        """The last layer by hand, on edited rows."""
        inputs = batch()
        hidden = inputs["attention_mask"] == 0
        states = self.embed(inputs["input_ids"])
        first, last = self.encoder.layers
        if not self.batch_first:
            states = first(states.transpose(0, 1), src_key_padding_mask=hidden).transpose(0, 1)
        else:
            states = first(states, src_key_padding_mask=hidden)
        source = last.norm1(states) if last.norm_first else states
        attention = last.self_attn
        values = F.linear(source, attention.in_proj_weight.chunk(3)[2], attention.in_proj_bias.chunk(3)[2])
        values = values.unflatten(-1, (3, -1))
        weights = weights.unflatten(2, (3, -1))  # heads first, then rows
        context = torch.einsum("bkhrn,bnhd->bkrhd", weights, values).flatten(3)
        out = states[:, None, : weights.shape[3]] + attention.out_proj(context)
        if last.norm_first:
            out = out + last._ff_block(last.norm2(out))
        else:
            out = last.norm1(out)
            out = last.norm2(out + last._ff_block(out))
        if not self.mean:
            return self.head(out[:, :, 0])
        real = inputs["attention_mask"][:, None, :, None].to(out.dtype)
        return self.head((out * real).sum(2) / real.sum(2))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "options", [{}, {"mean": True}, {"norm_first": True}, {"batch_first": False}, {"mean": True, "norm_first": True}]
)
def test_torchs_own_transformer_encoder(options, training):
    model = drawn(lambda: Encoder(**options)).train(training)
    if training:
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.3
    model.eval()
    with torch.no_grad():
        expected = model(**batch())
    model.train(training)
    cut = af.cut(model, example=batch())
    assert all(module.training == training for module in model.modules())
    assert_close(cut.capture(**batch()).logits, expected, 1e-10)
    model.eval()
    _, capture = check_against(model, model.literal)
    assert capture.shape[1] == (3 * 7 if options.get("mean") else 3)


class Rows(nn.Module):
    """Self-attention over all positions; of its rows the largest decide, or those that a gate lets through."""

    def __init__(self, pool):
        super().__init__()
        self.pool = pool
        self.embed = nn.Embedding(VOCABULARY, WIDTH, padding_idx=PAD)
        self.query, self.key, self.value, self.gate = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.head = nn.Linear(WIDTH, CLASSES)

    def weights(self, input_ids, attention_mask):
        states = self.embed(input_ids)
        scores = self.query(states) @ self.key(states).transpose(1, 2) / WIDTH**0.5
        return scores.masked_fill(attention_mask[:, None] == 0, -torch.inf).softmax(-1), self.value(states)

    def decide(self, rows, attention_mask):
        real = attention_mask.unsqueeze(-1)
        if self.pool == "largest":
            return self.head(rows.masked_fill(real == 0, -1e9).amax(1))
        open_rows = F.relu(self.gate(rows).sum(-1, keepdim=True)) * rows * real
        return self.head(open_rows.sum(1) / real.sum(1))

    def forward(self, input_ids, attention_mask):
        weights, values = self.weights(input_ids, attention_mask)
        return self.decide(weights @ values, attention_mask)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("pool", ["largest", "gated"])
def test_rows_that_decide_only_after_the_edit_are_edited_or_the_model_is_refused(pool, seed):
    """A row without a gradient now may decide once the attention is edited: it must be edited like the others."""
    torch.manual_seed(seed)
    model = Rows(pool).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 1.5 * parameter.shape[-1] ** -0.5)
    try:
        cut = af.cut(model, example={"input_ids": torch.tensor([[21, 22, 23, 24, 25, 26, 27]])})
        capture = cut.capture(**batch())
    except af.AttnFaithError as error:
        assert "logit" in str(error) or "row" in str(error)  # noqa: PT017 (refused, or right)
        return
    keep = keeps_of(capture)
    with torch.no_grad():
        weights, values = model.weights(**batch())
        edits = [model.decide(erase(weights, each) @ values, batch()["attention_mask"]) for each in keep.unbind(1)]
    assert_same(cut.rerun(capture, keep=keep), torch.stack(edits, 1), capture.logits, 1e-9)
