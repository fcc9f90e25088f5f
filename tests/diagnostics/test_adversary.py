"""The adversary: its objective against the definition, and planted truth: one that exists, and one that cannot."""

import math

import pytest
import torch

import attnfaith as af
from attnfaith.diagnostics.adversary.examination import conclusion
from attnfaith.diagnostics.adversary.training import AdversarialTwin, ValidatedAdversary, choose, twin_parts
from attnfaith.diagnostics.outputs import attention_distances, output_distances, outputs_of
from attnfaith.diagnostics.session import Plan
from attnfaith.errors import InputError
from attnfaith.estimates.lookup import SummaryValue
from attnfaith.functional.decision import Decision
from attnfaith.text.encoder import TextEncoder
from attnfaith.training import FixedRepresentations, fit


def slow_parts(logits, base_logits, weights, base_weights):
    """From the definition, with loops; a weight below 1e-12 counts as that inside the logarithms."""
    distances, divergences = [], []
    for row in range(len(logits)):
        outputs = []
        for values in (logits[row].tolist(), base_logits[row].tolist()):
            total = sum(math.exp(value) for value in values)
            outputs.append([math.exp(value) / total for value in values])
        distances.append(sum(abs(a - b) for a, b in zip(*outputs, strict=True)) / 2)
        pairs = zip(weights[row].tolist(), base_weights[row].tolist(), strict=True)
        divergences.append(sum(a * (math.log(max(a, 1e-12)) - math.log(max(b, 1e-12))) for a, b in pairs))
    return torch.tensor(distances, dtype=torch.float64), torch.tensor(divergences, dtype=torch.float64)


def test_the_objective_equals_its_definition_with_weights_of_0(generator):
    logits, base = torch.randn(2, 12, 3, generator=generator, dtype=torch.float64)
    weights = torch.rand(2, 12, 5, generator=generator, dtype=torch.float64)
    weights = weights * (torch.rand(weights.shape, generator=generator) > 0.4)
    weights[..., 0] += 1e-3
    weights = weights / weights.sum(-1, keepdim=True)
    logits.requires_grad_(True)
    mine = weights[0].clone().requires_grad_(True)
    result = twin_parts(logits, base, mine, weights[1], Decision())
    expected = slow_parts(logits, base, mine, weights[1])
    assert torch.allclose(result[0], expected[0], atol=1e-12)
    assert torch.allclose(result[1], expected[1], atol=1e-9)
    (result[0] - result[1]).sum().backward()
    assert logits.grad.isfinite().all()
    assert mine.grad.isfinite().all()


def lookup(pairs):
    """A bag of words whose attention prefers "loud": opinions of both kinds are there, and attention decides."""
    tokenizer = af.models.WordTokenizer.train(["good bad fine calm"], min_count=1)
    torch.manual_seed(0)
    sizes = {"embedding_size": 2, "attention": "dot", "input_dropout": 0.0, "classifier_dropout": 0.0}
    model = af.models.from_preset("FLANnoenc", num_labels=2, tokenizer=tokenizer, **sizes)
    ids = {word: tokenizer.convert_tokens_to_ids(word) for word in ("good", "bad", "fine", "calm")}
    with torch.no_grad():
        model.embeddings.weight.zero_()
        # the first number is the opinion, the second one what attention reads
        for word, vector in {"good": (2, 1), "bad": (-2, 0), "fine": (2, 0), "calm": (-2, 1)}.items():
            model.embeddings.weight[ids[word]] = torch.tensor(vector, dtype=torch.float)
        model.attention.context.weight.copy_(torch.tensor([[0.0, 2.0]]))
        model.classifier.weight.copy_(torch.tensor([[-0.5, 0.0], [0.5, 0.0]]))
        model.classifier.bias.zero_()
    return model.eval(), tokenizer, [{"text": text, "label": 0} for text in pairs for _ in range(8)]


def twin_of(pairs):
    """Train an adversary that may change the attention only; the distances of its outputs and of its attention."""
    model, tokenizer, rows = lookup(pairs)
    base, encoder = af.cut(model), TextEncoder(tokenizer, model)
    other, _, _ = lookup(pairs)
    with torch.no_grad():  # at the attention of the base the divergence has no gradient
        other.attention.context.weight.mul_(0.5)
    objectives = [AdversarialTwin(base, Decision(), 0.05), FixedRepresentations()]
    fit(other, tokenizer, rows, rows, learning_rate=0.2, epochs=15, batch_size=8, patience=None, objectives=objectives)
    encoded = encoder.encode([row["text"] for row in rows])
    outputs = [outputs_of(cut, encoder, encoded, Decision()) for cut in (base, af.cut(other))]
    return output_distances(*outputs).mean(), attention_distances(*outputs).mean()


def test_an_adversary_that_exists_is_found():
    """Two words of the same opinion: whichever is attended, the output is the same."""
    tvd, jsd = twin_of(["good fine", "fine good"])
    assert tvd < 0.02
    assert jsd > 0.2


def test_an_adversary_that_cannot_exist_is_not_found():
    """Two words of opposite opinions: the output says how much of each is attended; single words fix its scale."""
    tvd, jsd = twin_of(["good bad", "calm fine", "good", "bad"])
    assert tvd < 0.05
    assert jsd < 0.02


def made(weight, tvd, jsd):
    return ValidatedAdversary(Plan("adversary", 0, weight), tvd, jsd)


def test_the_most_different_of_the_near_ones_is_chosen():
    results = [made(0.0, 0.01, 0.1), made(0.01, 0.04, 0.5), made(0.1, 0.3, 0.69)]
    assert choose(results, 0.05) == (results[1], True)
    assert choose(results, 0.5) == (results[2], True)
    assert choose(results, 0.001) == (results[0], False)


def test_overlapping_intervals_are_no_proof_of_equal_skill():
    model = SummaryValue(0.5, 0.4, 0.6)
    for adversary, says in (((0.1, 0.0, 0.3), "worse"), ((0.45, 0.0, 0.9), "no clear"), ((0.9, 0.8, 1.0), "better")):
        assert says in conclusion(model, SummaryValue(*adversary))


def test_lambdas_that_are_close_have_folders_of_their_own():
    weights = (0.1, 0.12345678, 0.12345679, 1.0, 1e-5, 1 / 3)
    names = [Plan("adversary", 0, weight).name for weight in weights]
    assert len(set(names)) == len(weights)
    assert [float(name.removeprefix("adversary-").removesuffix("-0")) for name in names] == list(weights)
    assert names[0] == "adversary-0.1-0"


def test_a_negative_lambda_is_refused():
    with pytest.raises(InputError, match="lambdas"):
        AdversarialTwin(None, Decision(), -0.1)
