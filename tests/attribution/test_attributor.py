"""The Attributor: what can be asked for, in which forms, of which models; and what is refused at the door."""

import functools
import threading

import pytest
import torch
from transformers import pipeline

import attnfaith as af
from attnfaith.adapters.base import adapters
from attnfaith.attribution import methods
from attnfaith.attribution.attributor import Attributor
from attnfaith.families import tiny_model
from tests.attribution import made
from tests.attribution.asking import FEW_STEPS
from tests.attribution.made import PAIR, TEXT, byte_level, words
from tests.comparing import inputs_of, model_of

pytestmark = FEW_STEPS
TEXTS = [TEXT, "a thin cast", "Nobody plays. It is quiet.", "see it"]
word_piece = functools.cache(made.word_piece)  # training one twice gives two
NAMES = {0: "bad", 1: "fair", 2: "good"}


def named(family="bert", **settings):
    model = tiny_model(family, **settings)
    model.config.id2label, model.config.label2id = NAMES, {name: place for place, name in NAMES.items()}
    return model


def own(preset, labels=2, sentences=False, **config):
    tokenizer = words(sentences)
    torch.manual_seed(0)
    model = af.models.from_preset(preset, num_labels=labels, tokenizer=tokenizer, **config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 1.5 * parameter.shape[-1] ** -0.5)
    return model.eval(), tokenizer


def scores(explanations):
    return [torch.tensor(one.scores) for one in explanations]


def same(got, expected, tolerance=1e-5):
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance * float(other.abs().max()))


@pytest.mark.parametrize("level", ["attention", "input"])
def test_targets_in_all_their_forms(level):
    attributor = Attributor(named(), word_piece(), method="gradient", level=level)
    plain = attributor(TEXTS)
    assert all(one.target == one.prediction for one in plain)
    by_number, by_name = attributor(TEXTS, target=2), attributor(TEXTS, target="good")
    assert [one.target for one in by_number] == ["good"] * 4
    same(scores(by_number), scores(by_name), 0)
    mixed = attributor(TEXTS, target=["good", 0, "predicted", torch.tensor(1)])
    assert [one.target for one in mixed] == ["good", "bad", plain[2].prediction, "fair"]
    same(scores(mixed)[:1], scores(by_number)[:1])
    same(scores(mixed)[2:3], scores(plain)[2:3])
    assert Attributor(named(), word_piece(), target="fair")(TEXT).target == "fair"
    assert Attributor(named(), word_piece(), target=1)(TEXT, target=0).target == "bad"
    same(scores(attributor(TEXTS, target=torch.tensor([2, 2, 2, 2]))), scores(by_number), 0)


def test_gold_is_given_with_each_call():
    attributor = Attributor(named(), word_piece(), target="gold")
    with pytest.raises(af.InputError, match=r"target='gold' needs the gold class of text \d.*target="):
        attributor(TEXTS)
    assert [one.target for one in attributor(TEXTS, target=[0, 1, 2, 0])] == ["bad", "fair", "good", "bad"]


@pytest.mark.parametrize("wrong", [3, -1, "great", True, 1.5, "3", object()])
def test_a_target_that_is_no_class_is_refused(wrong):
    attributor = Attributor(named(), word_piece())
    with pytest.raises(af.InputError, match=r"is no class: expected 0\.\.2 or one of 'bad', 'fair', 'good'"):
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
        inputs = attributor.texts.collate(attributor.texts.encode([TEXT]))
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
    with pytest.raises(af.InputError, match="one of probability, logit, log_odds, got 'odds'"):
        Attributor(model, output="odds")
    assert Attributor(model).output == "probability"
    assert Attributor(model, method="lrp").output == "log_odds"
    assert Attributor(model, method="lrp", output="logit").output == "logit"


def test_methods_are_found_or_the_nearest_named():
    model = named()
    with pytest.raises(af.InputError, match=r"no input-level method 'integratd_gradients'.*'integrated_gradients'"):
        Attributor(model, method="integratd_gradients", level="input")
    with pytest.raises(af.InputError, match=r"'greedy' exists at level='attention' only.*there are: .*occlusion"):
        Attributor(model, method="greedy", level="input")
    with pytest.raises(af.InputError, match=r"'rollout' exists at level='input' only"):
        Attributor(model, method="rollout", level="attention")
    with pytest.raises(af.InputError, match=r"level.*attention.*input.*'tokens'"):
        Attributor(model, method="gradient", level="tokens")
    with pytest.raises(af.UnsupportedModelError, match=r"affine.*greedy"):
        Attributor(model, word_piece(), method="optimal")(TEXT)


@pytest.mark.parametrize("method", ["attention", "gradient", "gradient_x_attention", "occlusion", "lrp"])
def test_layer_and_head_say_where_to_cut(method):
    model = model_of("bert")
    inputs = inputs_of(model)
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    for layer, head in ((0, None), (1, None), (-2, None), (0, 2), ("final", 3)):
        where = {} if layer == "final" else {"layer": layer}
        cut = af.cut(model, **where, **({} if head is None else {"heads": [head]}))
        expected = Attributor(cut, method=method).attribute(ids, None, mask)
        got = Attributor(model, method=method, layer=layer, head=head).attribute(ids, None, mask)
        assert torch.equal(got, expected)
    final = Attributor(model, method=method).attribute(ids, None, mask)
    assert torch.equal(Attributor(model, method=method, layer=-1).attribute(ids, None, mask), final)
    other = Attributor(model, method=method, layer=0).attribute(ids, None, mask)
    assert not torch.allclose(other, final)


def test_the_mean_over_layers():
    model = tiny_model("bert", attn_implementation="eager")
    inputs = inputs_of(model)
    with torch.no_grad():
        seen = model(**inputs, output_attentions=True).attentions
    expected = torch.stack([layer[:, :, 0].mean(1) for layer in seen]).mean(0)
    for level in ("attention", "input"):
        attributor = Attributor(model, method="attention", level=level, layer="mean")
        got = attributor.attribute(inputs["input_ids"], None, inputs["attention_mask"])
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"layer": "mean", "method": "gradient"}, "layer='mean' is for the method 'attention'"),
        ({"layer": "mean", "method": "attention", "head": 1}, "all heads together"),
        ({"layer": "last"}, "'final', 'mean' or a number, got 'last'"),
        ({"layer": 7}, "7|attention"),
        ({"head": 9}, "9|head"),
        ({"layer": 0, "level": "input", "method": "gradient"}, "level='attention' and an uncut model"),
        ({"head": 0, "level": "input", "method": "attention"}, "level='attention' and an uncut model"),
    ],
)
def test_a_place_that_cannot_be_cut_is_refused(settings, said):
    with pytest.raises(af.AttnFaithError, match=said):
        Attributor(model_of("bert"), **settings)
    if "level" not in settings:
        with pytest.raises(af.AttnFaithError, match="uncut model"):
            Attributor(af.cut(model_of("bert")), **settings)


def test_longer_texts_are_cut_off_and_said_to_be():
    long = "thin plot " * 200
    explanation = Attributor(named(), word_piece())(long)
    assert len(explanation.scores) == 128
    assert explanation.truncated > 0
    assert any("cut off" in note for note in explanation.notes)
    short = Attributor(named(), word_piece(), max_length=6)
    assert len(short([long, "see it"])[0].scores) == 6
    with pytest.raises(af.InputError, match="128 tokens"):
        Attributor(named(), word_piece(), max_length=129)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_model_a_path_a_pipeline_or_a_cut(family, tmp_path):
    model, tokenizer = named(family), word_piece()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    pipe = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
    for settings in ({"method": "gradient_x_attention"}, {"method": "lrp", "level": "input"}):
        expected = Attributor(model, tokenizer, **settings)(TEXTS)
        given = [(af.cut(model), tokenizer), (str(tmp_path),), (tmp_path,), (pipe,), (pipe, tokenizer)]
        for arguments in given:
            got = Attributor(*arguments, **settings)(TEXTS)
            same(scores(got), scores(expected))
            assert [one.prediction for one in got] == [one.prediction for one in expected]
    for one, said in zip(Attributor(pipe)(TEXTS), pipe(TEXTS), strict=True):
        assert one.prediction == said["label"]
        assert one.probability == pytest.approx(said["score"], rel=1e-4)


def test_what_is_no_model_is_refused(tmp_path):
    for wrong in (tmp_path, str(tmp_path / "none")):
        with pytest.raises(af.InputError, match="could be loaded from"):
            Attributor(wrong)
    for wrong in (3, None, [model_of("bert")]):
        with pytest.raises(af.InputError, match="Expected a model, a path, or a text-classification pipeline"):
            Attributor(wrong)
    with pytest.raises(af.InputError, match="without a tokenizer"):
        Attributor(model_of("bert"))("a film")
    assert not adapters.get(int)


@pytest.mark.parametrize("level", ["attention", "input"])
def test_a_method_of_ones_own(level):
    name = f"of_ones_own_at_{level}"
    try:

        @af.register_method(name, level=level, cost="nothing", signed=False)
        def first_first(*arguments):
            if level == "attention":
                capture, cut, target = arguments
                assert isinstance(cut, af.Cut)
                count, shape = capture.mask.cumsum(-1), capture.mask.shape
            else:
                model, inputs, target = arguments
                assert isinstance(model, torch.nn.Module)
                count, shape = inputs["attention_mask"].cumsum(-1), inputs["input_ids"].shape
            assert target.shape == shape[:1]
            return 100.0 - count

        assert any(row["name"] == name and row["level"] == level for row in af.methods())
        assert name in repr(af.methods())
        explanations = Attributor(named(), word_piece(), method=name, level=level)(TEXTS)
        for one in explanations:
            assert one.ranking() == tuple(range(len(one.scores)))
            assert not one.signed
        with pytest.raises(af.InputError, match="registered already"):
            af.register_method(name, level=level)(first_first)
        wrong = f"{name}_wrong"
        af.register_method(wrong, level=level)(lambda *arguments: torch.zeros(2, 3))
        with pytest.raises(af.InputError, match=r"shape \(2, 3\); expected one for each item"):
            Attributor(named(), word_piece(), method=wrong, level=level)(TEXTS)
    finally:
        for added in [key for key in methods if key[1].startswith("of_ones_own")]:
            del methods[added]


def test_two_attributors_on_two_models_in_two_threads():
    first, second = named("bert", seed=0), named("gpt2", seed=1)
    third = named("bert", seed=2)
    third.config = first.config  # two models, one configuration
    makers = [
        lambda: Attributor(first, word_piece(), method="lrp", level="input", epsilon=0.1),
        lambda: Attributor(second, word_piece(), method="integrated_gradients", level="input", steps=7),
        lambda: Attributor(third, word_piece(), method="gradient_x_input", level="input"),
        lambda: Attributor(first, word_piece(), method="gradient", level="input"),
    ]
    alone = [scores(make()(TEXTS)) for make in makers]
    found, errors = [[] for _ in makers], []

    def work(place):
        try:
            attributor = makers[place]()
            found[place].extend(scores(attributor(TEXTS)) for _ in range(4))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(makers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for results, expected in zip(found, alone, strict=True):
        for result in results:
            same(result, expected)


def test_random_does_not_mind_the_size_of_the_batch():
    one, many = (Attributor(named(), word_piece(), method="random", batch_size=size)(TEXTS * 3) for size in (1, 5))
    same(scores(one), scores(many), 0)
    assert not torch.equal(*(torch.tensor(one[place].scores) for place in (0, 4)))


@pytest.mark.parametrize("method", ["gradient", "lrp", "integrated_gradients", "random", "attention", "occlusion"])
def test_a_han_at_both_levels(method):
    model, tokenizer = own("HANrnn", sentences=True)
    text = "A thin plot. A superb cast. I would see it again!"
    upper = Attributor(model, tokenizer, method=method)(text)
    lower = Attributor(model, tokenizer, method=method, level="input")(text)
    assert upper.unit == "sentence"
    assert list(upper.tokens) == ["A thin plot.", "A superb cast.", "I would see it again!"]
    assert lower.unit == "token"
    assert len(lower.scores) == len(lower.tokens) > 12
    ids = torch.tensor([lower.encoded.ids])
    assert Attributor(model, method=method).attribute(ids).shape == (1, 3)
    assert Attributor(model, method=method, level="input").attribute(ids).shape == ids.shape


def test_one_sigmoid_logit_is_two_classes():
    one, tokenizer = own("FLANrnn", labels=1, problem_type="single_label_classification")
    two, _ = own("FLANrnn", labels=2)
    one, two = one.double(), two.double()
    with torch.no_grad():
        two.load_state_dict(
            {name: value for name, value in one.state_dict().items() if "classifier" not in name}, strict=False
        )
        two.classifier.weight.zero_()
        two.classifier.bias.zero_()
        two.classifier.weight[1], two.classifier.bias[1] = one.classifier.weight[0], one.classifier.bias[0]
    for level, name in sorted(methods):
        if name == "rollout":
            continue
        for target in (None, 0, 1):
            got, expected = (
                Attributor(model, tokenizer, method=name, level=level)(TEXTS, target=target) for model in (one, two)
            )
            same(scores(got), scores(expected), 1e-5)  # "lrp" has its epsilon for one logit or for two
            assert [a.probability for a in got] == pytest.approx([b.probability for b in expected])
            assert all(a.probability >= 0.5 for a in got)


@pytest.mark.parametrize("level", ["attention", "input"])
def test_models_of_many_labels_and_of_a_number(level):
    model, tokenizer = own("FLANrnn", labels=3, problem_type="multi_label_classification")
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
    number, tokenizer = own("FLANrnn", labels=1, problem_type="regression")
    explanation = Attributor(number, tokenizer, method="gradient", level=level, output="logit")(TEXT)
    assert explanation.probability is None
    with pytest.raises(af.InputError, match="no probabilities"):
        Attributor(number, tokenizer, method="gradient", level=level, output="probability")(TEXT)


def test_one_logit_without_a_problem_type_is_asked_about():
    model, tokenizer = own("FLANrnn", labels=1)
    model.config.problem_type = None
    with pytest.raises(af.InputError, match="decision='sigmoid'"):
        Attributor(model, tokenizer)(TEXT)
    assert Attributor(model, tokenizer, decision="sigmoid")(TEXT).probability >= 0.5
    assert Attributor(model, tokenizer, decision="regression", output="logit")(TEXT).probability is None


def test_a_regression_has_no_probability_to_explain():
    model, tokenizer = own("FLANrnn", labels=1, problem_type="regression")
    with pytest.raises(af.InputError, match="output='logit'"):
        Attributor(model, tokenizer, output="probability")(TEXT)
    for method in ("gradient", "lrp"):
        assert Attributor(model, tokenizer, method=method)(TEXT).output == "logit"


def test_a_model_without_a_padding_token():
    """GPT-2 takes texts of one length together then; many texts are explained as each would be alone."""
    model = named("gpt2")
    expected = scores(Attributor(model, byte_level(), method="occlusion", level="input")(TEXTS))
    model.config.pad_token_id = None
    without = Attributor(model, byte_level(), method="occlusion", level="input")
    same(scores(without(TEXTS)), expected)
    model.config.pad_token_id = 1
    tokenizer = byte_level()
    tokenizer.pad_token = None
    attributor = Attributor(model, tokenizer, method="occlusion", level="input")
    same(scores(attributor(TEXTS)), scores([attributor(text) for text in TEXTS]))
    words_only, tokenizer = own("FLANrnn")
    with pytest.raises(af.InputError, match=r"no \[MASK\] token"):
        Attributor(words_only, tokenizer, method="occlusion", level="input", baseline="mask")(TEXT)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"steps": 0}, "steps to be a whole number"),
        ({"steps": True}, "steps to be a whole number"),
        ({"batch_size": 0}, "batch_size"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"baseline": "noise"}, "baseline"),
        ({"baseline": torch.zeros(3)}, r"baseline has shape \(3,\)"),
        ({"decision": "binary"}, "decision"),
    ],
)
def test_bad_settings_are_refused_at_the_door(settings, said):
    with pytest.raises(af.InputError, match=said):
        Attributor(named(), word_piece(), method="integrated_gradients", level="input", **settings)(TEXTS)


@pytest.mark.parametrize(
    "ids", [[[1, 2]], torch.zeros(2, 3), torch.zeros(3, dtype=torch.long), torch.zeros(1, 0).long()]
)
def test_what_are_no_ids_is_refused(ids):
    with pytest.raises(af.InputError, match="input_ids"):
        Attributor(model_of("bert")).attribute(ids)


def test_pairs_are_one_text_each():
    attributor = Attributor(named(), word_piece())
    single, listed = attributor(PAIR), attributor([PAIR, TEXT])
    same(scores([single]), scores(listed[:1]))
    assert single.text == PAIR
    assert set(single.encoded.segments) == {None, 0, 1}
