"""Each input-level method's slow twin: finite differences and literal loops over the model's own forward pass."""

import itertools

import pytest
import torch

from attnfaith.adapters.inference_state import inference_state
from attnfaith.errors import UnsupportedModelError
from tests.helpers.comparing import prepared
from tests.helpers.difference_quotients import OUTPUTS, also, close, close_of, explained, step_of
from tests.helpers.methods import FEW_STEPS, alone, ask, families, in_double

pytestmark = FEW_STEPS
WHOLE = ["bert", "FLANnoenc", *also("gpt2", "llama", "FLANrnn", "FLANconv")]


class Whole:
    """One text alone at the input level: the number explained, as a function of its word vectors, by the model."""

    def __init__(self, family, output, target=1, text=0):
        done, self.step = prepared(family, torch.float64), step_of(family) / 4
        self.cut, self.model, self.output, self.target = done.cut, done.model, output, target
        self.inputs = alone(done.inputs, text)
        self.vectors = done.model.get_input_embeddings()(self.inputs["input_ids"])[0].detach()
        self.length = len(self.vectors)

    def many(self, vectors):
        """[K, L, E] to [K]."""
        given = {"attention_mask": self.inputs["attention_mask"].expand(len(vectors), -1), "inputs_embeds": vectors}
        if self.model.config.model_type.startswith("attnfaith") or hasattr(self.model, "attend"):
            given["input_ids"] = self.inputs["input_ids"].expand(len(vectors), -1)
        with torch.no_grad():
            logits = self.model(**given).logits
        return torch.tensor([explained(row, self.target, self.output) for row in logits], dtype=torch.float64)

    def along(self, start, directions):
        """How fast the number changes from [L, E] in the directions [K, L, E]."""
        return (self.many(start + self.step * directions) - self.many(start - self.step * directions)) / (2 * self.step)

    def single(self, vectors):
        """[L, E] to [L, L, E]: each token's vector by itself, nothing elsewhere."""
        return torch.stack([vectors * (torch.arange(len(vectors)) == i).unsqueeze(-1) for i in range(len(vectors))])

    def scores(self, name, **settings):
        _, scores = ask(self.cut, "input", name, self.inputs, target=self.target, output=self.output, **settings)
        return scores.values[0]


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("family", WHOLE)
def test_gradients_of_the_input(family, output):
    whole = Whole(family, output)
    vectors, width = whole.vectors, whole.vectors.shape[1]
    norms = []
    for index in range(whole.length):
        directions = torch.zeros(width, *vectors.shape, dtype=torch.float64)
        directions[range(width), index, range(width)] = 1
        norms.append(float(whole.along(vectors, directions).square().sum().sqrt()))
    close(whole.scores("gradient"), norms, close_of(family))
    close(whole.scores("gradient_x_input"), whole.along(vectors, whole.single(vectors)).tolist(), close_of(family))
    baselines = [None, torch.full((width,), 0.3, dtype=torch.float64)]
    for baseline in baselines[family == "llama" :]:  # where RMSNorm starts from zero, no two rules agree
        start = torch.zeros_like(vectors) if baseline is None else baseline.expand_as(vectors)
        way, total = vectors - start, 0
        for points in ((torch.arange(150, dtype=torch.float64) + 0.5) / 150).split(50):  # the midpoint rule
            from_each = (start + points[:, None, None] * way).repeat_interleave(whole.length, dim=0)
            along = whole.along(from_each, whole.single(way).repeat(len(points), 1, 1))
            total = total + along.view(len(points), whole.length).sum(0) / 150
        given = {} if baseline is None else {"baseline": baseline}
        kinks = family == "FLANconv" or output == "log_odds" or baseline is None  # ReLU, a maximum, a norm of zero
        close(whole.scores("integrated_gradients", steps=100, **given), total.tolist(), 3e-2 if kinks else 5e-3)


@pytest.mark.parametrize("family", WHOLE)
def test_occlusion_of_the_input(family):
    whole = Whole(family, "log_odds", text=1)
    pad = whole.model.get_input_embeddings().weight[whole.model.config.pad_token_id].detach()
    for baseline, absent in (("zero", torch.zeros_like(whole.vectors[0])), ("pad", pad)):
        expected = []
        for index in range(whole.length):
            changed = whole.vectors.clone()
            changed[index] = absent
            expected.append(float(whole.many(whole.vectors[None]) - whole.many(changed[None])))
        close(whole.scores("occlusion", baseline=baseline), expected, 1e-7)


@pytest.mark.parametrize("family", ["bert", "gpt2", "t5", "FLANrnn", "HANrnn", "xlnet", "deberta-v2"])
def test_omission_is_the_shorter_text(family):
    done = in_double(family)
    for text, level_target in itertools.product((0, 1), (0, 2)):
        inputs = alone(done.inputs, text)
        ids = inputs["input_ids"][0].tolist()
        _, got = ask(done.cut, "input", "omission", inputs, target=level_target)

        def number(ids, inputs=inputs, target=level_target):
            shorter = {name: value[:, : len(ids)] for name, value in inputs.items()}
            shorter["input_ids"] = torch.tensor([ids])
            with torch.no_grad():
                return explained(done.model(**shorter).logits[0], target, "probability")

        special = set() if hasattr(done.model, "attend") else {0, 1, 2}
        for index, token in enumerate(ids):
            if got.values[0, index].isnan():
                assert token in special or hasattr(done.model, "attend")
                continue
            expected = number(ids) - number(ids[:index] + ids[index + 1 :])
            assert float(got.values[0, index]) == pytest.approx(expected, abs=1e-6)
        assert got.values[0].isfinite().sum() >= len(ids) - 3


@pytest.mark.parametrize("family", ["bart", "t5", *also("mbart", "mt5", "plbart", "bigbird_pegasus", "mvp", "umt5")])
def test_a_decoder_that_reads_the_text_again_reads_the_same_vectors(family):
    """A word's row of the table is zeroed by hand: it is read by the encoder, and shifted by one by the decoder."""
    done = in_double(family)
    inputs, table = alone(done.inputs, 0), done.model.get_input_embeddings().weight
    ids = inputs["input_ids"][0].tolist()
    _, got = ask(done.cut, "input", "occlusion", inputs, target=1, output="logit")

    def number():
        with torch.no_grad():
            return float(done.model(**inputs).logits[0, 1])

    whole, compared = number(), 0
    for index, token in enumerate(ids):
        if ids.count(token) > 1 or token in (0, 1, 2):
            continue
        kept = table[token].detach().clone()
        try:
            with torch.no_grad():
                table[token] = 0
            expected = whole - number()
        finally:
            with torch.no_grad():
                table[token] = kept
        assert float(got.values[0, index]) == pytest.approx(expected, rel=1e-4, abs=1e-6)
        compared += 1
    assert compared > 4


@pytest.mark.parametrize("family", families())
def test_a_model_that_reads_its_own_vectors_says_what_it_says(family):
    """Twice: some families scale what they have looked up in place."""
    done = in_double(family)
    adapter, inputs = done.cut.adapter, done.inputs
    with inference_state(done.model, gradients=False):
        try:
            vectors = adapter.vectors(inputs)
            adapter.forward_on(vectors.clone(), inputs)
        except UnsupportedModelError as error:
            pytest.skip(str(error))
        kept = vectors.clone()
        for _ in range(2):
            logits = adapter.forward_on(kept.clone(), inputs)
            assert (logits - done.capture.logits).abs().max() <= done.tolerance * done.capture.logits.abs().max()
        zeroed = adapter.forward_on(torch.zeros_like(kept), inputs)
        assert (zeroed - done.capture.logits).abs().max() > 1e-2 * done.capture.logits.abs().max()
    _, scores = ask(done.cut, "input", "occlusion", inputs, output="logit")
    again = ask(done.cut, "input", "occlusion", inputs, output="logit")[1]
    assert torch.equal(scores.values.nan_to_num(), again.values.nan_to_num())
    _, path = ask(done.cut, "input", "integrated_gradients", inputs, output="logit")
    number = done.capture.logits.amax(-1)
    target = done.capture.logits.argmax(-1)
    lost = zeroed.gather(1, target[:, None])[:, 0]
    if len(number) == 1 or inputs["attention_mask"].all():
        torch.testing.assert_close(path.values.sum(-1) + path.gap, number - lost, rtol=1e-4, atol=1e-4)
