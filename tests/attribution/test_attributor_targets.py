"""What an Attributor explains: which class, of which kind of decision, and which of its outputs."""

import pytest
import torch

import attnfaith as af
from attnfaith.attribution.attributor import Attributor
from attnfaith.attribution.method import methods
from tests.helpers.labelled_models import TEXTS, made_model, named, same, scores, word_piece
from tests.helpers.methods import FEW_STEPS
from tests.helpers.tokenizers import TEXT

pytestmark = FEW_STEPS


@pytest.mark.parametrize("level", ["attention", "input"])
def test_targets_in_all_their_forms(level):
    attributor = Attributor(named(), word_piece(), method="gradient", level=level)
    plain = attributor(TEXTS)
    assert all(item.target == item.prediction for item in plain)
    by_number, by_name = attributor(TEXTS, target=2), attributor(TEXTS, target="good")
    assert [item.target for item in by_number] == ["good"] * 4
    same(scores(by_number), scores(by_name), 0)
    mixed = attributor(TEXTS, target=["good", 0, "predicted", torch.tensor(1)])
    assert [item.target for item in mixed] == ["good", "bad", plain[2].prediction, "fair"]
    same(scores(mixed)[:1], scores(by_number)[:1])
    same(scores(mixed)[2:3], scores(plain)[2:3])
    assert Attributor(named(), word_piece(), target="fair")(TEXT).target == "fair"
    assert Attributor(named(), word_piece(), target=1)(TEXT, target=0).target == "bad"
    same(scores(attributor(TEXTS, target=torch.tensor([2, 2, 2, 2]))), scores(by_number), 0)


def test_gold_is_given_with_each_call():
    attributor = Attributor(named(), word_piece(), target="gold")
    with pytest.raises(
        af.InputError, match=r"target='gold' needs the gold class of every text, .* text \d.* as target\."
    ):
        attributor(TEXTS)
    assert [item.target for item in attributor(TEXTS, target=[0, 1, 2, 0])] == ["bad", "fair", "good", "bad"]


@pytest.mark.parametrize("wrong", [3, -1, "great", True, 1.5, "3", object()])
def test_a_target_that_is_no_class_is_refused(wrong):
    attributor = Attributor(named(), word_piece())
    with pytest.raises(
        af.InputError, match=r"is no class of the model; expected 0\.\.2 or one of 'bad', 'fair', 'good'"
    ):
        attributor(TEXT, target=wrong)
    with pytest.raises(af.InputError, match="is no class"):
        Attributor(named(), word_piece(), target=wrong)(TEXT)


def test_as_many_targets_as_texts():
    attributor = Attributor(named(), word_piece())
    with pytest.raises(af.InputError, match="4 texts and 2 targets"):
        attributor(TEXTS, target=[0, 1])
    with pytest.raises(af.InputError, match="2 targets for 4 texts"):
        attributor.attribute(torch.full((4, 5), 9), target=[0, 1])


def test_labels_without_names():
    model = named()
    del model.config.id2label, model.config.label2id
    explanation = Attributor(model, word_piece())(TEXT, target=2)
    assert explanation.target in ("2", "LABEL_2")
    with pytest.raises(af.InputError, match=r"expected 0\.\.2"):
        Attributor(model, word_piece())(TEXT, target="good")


def test_outputs_in_all_their_forms():
    model = named(dtype=torch.float64)
    got = {}
    for output in ("probability", "logit", "log_odds"):
        attributor = Attributor(model, word_piece(), method="occlusion", level="input", target=1, output=output)
        got[output] = attributor(TEXT)
        assert got[output].output == output
    with torch.no_grad():
        inputs = attributor.encoder.collate(attributor.encoder.encode([TEXT]))
        vectors = model.get_input_embeddings()(inputs.pop("input_ids"))
        changed = vectors.clone()
        changed[:, 3] = 0
        whole, without = (model(inputs_embeds=given, **inputs).logits[0] for given in (vectors, changed))
    expected = {
        "probability": whole.softmax(-1)[1] - without.softmax(-1)[1],
        "logit": whole[1] - without[1],
        "log_odds": (whole[1] - whole[[0, 2]].max()) - (without[1] - without[[0, 2]].max()),
    }
    for output, value in expected.items():
        assert got[output].scores[3] == pytest.approx(float(value), rel=1e-8)
    with pytest.raises(af.InputError, match="one of 'probability', 'logit', 'log_odds'; got 'odds'"):
        Attributor(model, output="odds")
    assert Attributor(model, method="gradient").output == "probability"
    assert Attributor(model, method="lrp").output == "log_odds"
    assert Attributor(model, method="lrp", output="logit").output == "logit"


def test_one_sigmoid_logit_is_two_classes():
    first, tokenizer = made_model("FLANrnn", labels=1, problem_type="single_label_classification")
    second, _ = made_model("FLANrnn", labels=2)
    first, second = first.double(), second.double()
    with torch.no_grad():
        second.load_state_dict(
            {name: value for name, value in first.state_dict().items() if "classifier" not in name}, strict=False
        )
        second.classifier.weight.zero_()
        second.classifier.bias.zero_()
        second.classifier.weight[1], second.classifier.bias[1] = first.classifier.weight[0], first.classifier.bias[0]
    for level, name in sorted(methods):
        if name == "rollout":
            continue
        for target in (None, 0, 1):
            got, expected = (
                Attributor(model, tokenizer, method=name, level=level)(TEXTS, target=target)
                for model in (first, second)
            )
            same(scores(got), scores(expected), 1e-5)  # "lrp" has its epsilon for one logit or for two
            assert [a.probability for a in got] == pytest.approx([b.probability for b in expected])
            assert all(a.probability >= 0.5 for a in got)


@pytest.mark.parametrize("level", ["attention", "input"])
def test_models_of_many_labels_and_of_a_number(level):
    model, tokenizer = made_model("FLANrnn", labels=3, problem_type="multi_label_classification")
    for name in ("gradient", "occlusion", "lrp", "integrated_gradients"):
        explanation = Attributor(model, tokenizer, method=name, level=level)(TEXT, target=1)
        assert explanation.target == "LABEL_1"
        moved = model.classifier.bias.detach().clone()
        with torch.no_grad():
            model.classifier.bias[2] += 5.0  # another label's logit is none of this label's business
        other = Attributor(model, tokenizer, method=name, level=level)(TEXT, target=1)
        same(scores([other]), scores([explanation]))
        with torch.no_grad():
            model.classifier.bias.copy_(moved)
    number, tokenizer = made_model("FLANrnn", labels=1, problem_type="regression")
    explanation = Attributor(number, tokenizer, method="gradient", level=level, output="logit")(TEXT)
    assert explanation.probability is None
    with pytest.raises(af.InputError, match="no probabilities"):
        Attributor(number, tokenizer, method="gradient", level=level, output="probability")(TEXT)


def test_one_logit_without_a_problem_type_is_refused_with_advice():
    model, tokenizer = made_model("FLANrnn", labels=1)
    model.config.problem_type = None
    with pytest.raises(af.InputError, match="decision='sigmoid'"):
        Attributor(model, tokenizer)(TEXT)
    assert Attributor(model, tokenizer, decision="sigmoid")(TEXT).probability >= 0.5
    assert Attributor(model, tokenizer, decision="regression", output="logit")(TEXT).probability is None


def test_a_regression_has_no_probability_to_explain():
    model, tokenizer = made_model("FLANrnn", labels=1, problem_type="regression")
    with pytest.raises(af.InputError, match="output='logit'"):
        Attributor(model, tokenizer, output="probability")(TEXT)
    for name in ("gradient", "lrp"):
        assert Attributor(model, tokenizer, method=name)(TEXT).output == "logit"
