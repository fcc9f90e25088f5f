"""Cuts of attnfaith's own models, compared with the parts of the models put together by hand."""

import pytest
import torch
from torch import nn

import attnfaith as af
from attnfaith.adapters.dummy_inputs import make_dummy_inputs
from tests.helpers.comparing import assert_close
from tests.helpers.full_forward import erase_slow


@pytest.mark.parametrize("query", [False, True])
@pytest.mark.parametrize("name", ["FLANrnn", "Wen-conv-dot-softmax", "HANnoenc"])
def test_prefixes_equal_the_linear_layer_on_the_kept_items(name, query):
    """W (sum of w' v) + U q + b, with w' erased by loops; a query's part of the logits differs from text to text."""
    if query and name.startswith("HAN"):
        pytest.skip("a HAN reads one text")
    torch.manual_seed(0)
    settings = {"query": True} if query else {}
    model = af.models.from_preset(name, num_labels=3, vocab_size=60, **settings).double().eval()
    inputs = make_dummy_inputs(model, (12, 7))
    if name.startswith("HAN"):
        inputs["input_ids"][:, 3::3] = model.config.sentence_token_id
    cut = af.cut(model)
    assert cut.adapter.tail == "affine"
    capture = cut.capture(**inputs)
    order = torch.rand(capture.mask.shape).masked_fill(~capture.mask, -1).argsort(-1, descending=True)
    with torch.no_grad():
        seen = model.attend(**inputs)
        weight, bias = model.head_weight_bias()
    assert (seen.offset is not None) == query
    expected = torch.zeros(2, capture.shape[2] + 1, 3, dtype=torch.float64)
    for text in range(2):
        for removed in range(capture.shape[2] + 1):
            keep = capture.mask[text].clone()
            keep[order[text, :removed]] = False
            kept = torch.tensor(erase_slow(capture.weights[text, 0].tolist(), keep.tolist()), dtype=torch.float64)
            attended = sum(w * v for w, v in zip(kept, seen.values[text], strict=True))
            expected[text, removed] = weight @ attended + bias + (seen.offset[text] if query else 0)
    assert_close(cut.prefixes(capture, order), expected.detach(), 1e-10)
    other = capture.mask.int().argsort(dim=-1, descending=True, stable=True)
    together = cut.prefixes(capture, torch.stack((order, other)))
    assert torch.equal(together[0], cut.prefixes(capture, order))
    assert torch.equal(together[1], cut.prefixes(capture, other))


class Drawing(nn.Module):
    """Draws random numbers in evaluation mode too, as hashed attentions do; here they change nothing."""

    def __init__(self):
        super().__init__()
        self.embed, self.score, self.decide = nn.Embedding(30, 8), nn.Linear(8, 1), nn.Linear(8, 2)

    def forward(self, input_ids, attention_mask):
        states = self.embed(input_ids) + 0 * torch.rand(8)
        scores = self.score(states).squeeze(-1).masked_fill(attention_mask == 0, -torch.inf)
        return self.decide(torch.einsum("bn,bnd->bd", scores.softmax(-1), states))


def test_the_random_state_is_restored_after_a_model_draws():
    model = Drawing()
    example = {"input_ids": torch.tensor([[3, 4, 5, 6, 7]])}
    before = torch.get_rng_state()
    cut = af.cut(model, example=example)
    capture = cut.capture(**example)
    cut.rerun(capture, keep=capture.mask.unsqueeze(1))
    cut.prefixes(capture, torch.arange(5).unsqueeze(0))
    assert torch.equal(torch.get_rng_state(), before)
