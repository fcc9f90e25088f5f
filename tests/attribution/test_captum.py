"""captum as a third opinion where it computes the same thing; the Attributor where captum wants an attribution."""

import inspect

import captum.attr
import pytest
import torch
from captum.metrics import infidelity, sensitivity_max

import attnfaith as af
from attnfaith.attribution.attributor import Attributor
from tests.helpers.comparing import inputs_of, model_of
from tests.helpers.methods import FEW_STEPS, alone, in_double

pytestmark = FEW_STEPS
FAMILIES = ["bert", "gpt2", "FLANrnn", "FLANconv"]


class Shape:
    """A family's model as captum wants it: a function of word vectors, one text at a time, its target's probability."""

    def __init__(self, family, text=0):
        done = in_double(family)
        self.cut, self.model, self.inputs = done.cut, done.model, alone(done.inputs, text)
        self.flat = hasattr(self.model, "attend")
        with torch.no_grad():
            self.vectors = self.model.get_input_embeddings()(self.inputs["input_ids"])

    def forward(self, vectors):
        rows = len(vectors)
        given = {"inputs_embeds": vectors, "attention_mask": self.inputs["attention_mask"].expand(rows, -1)}
        if self.flat:
            given["input_ids"] = self.inputs["input_ids"].expand(rows, -1)
        return self.model(**given).logits.softmax(-1)

    def ours(self, name, **settings):
        attributor = Attributor(self.cut, method=name, level="input", target=1, **settings)
        return attributor.attribute(self.inputs["input_ids"], additional_forward_args=self.inputs["attention_mask"])


def close(got, expected):
    assert expected.abs().max() > 1e-4
    torch.testing.assert_close(got.double(), expected.double(), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("text", [0, 1])
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients(family, text):
    shape = Shape(family, text)
    saliency = captum.attr.Saliency(shape.forward).attribute(
        shape.vectors.clone().requires_grad_(), target=1, abs=False
    )
    close(shape.ours("gradient"), saliency.norm(dim=-1))
    product = captum.attr.InputXGradient(shape.forward).attribute(shape.vectors.clone().requires_grad_(), target=1)
    close(shape.ours("gradient_x_input"), product.sum(-1))


@pytest.mark.parametrize("baseline", ["zero", "pad"])
@pytest.mark.parametrize("family", FAMILIES)
def test_integrated_gradients(family, baseline):
    shape = Shape(family)
    pad = shape.model.get_input_embeddings().weight[shape.model.config.pad_token_id].detach()
    if baseline == "pad":  # a pad vector is zero by default: one that is not tells the two apart
        pad = torch.linspace(-0.4, 0.4, len(pad), dtype=torch.float64)
        with torch.no_grad():
            padding_vector = shape.model.get_input_embeddings().weight[shape.model.config.pad_token_id].clone()
            shape.model.get_input_embeddings().weight[shape.model.config.pad_token_id] = pad
    start = torch.zeros_like(shape.vectors) + (pad if baseline == "pad" else 0)
    method = captum.attr.IntegratedGradients(shape.forward)
    try:
        expected, delta = method.attribute(
            shape.vectors, start, target=1, n_steps=20, method="gausslegendre", return_convergence_delta=True
        )
        close(shape.ours("integrated_gradients", steps=20, baseline=baseline), expected.sum(-1))
        attributor = Attributor(shape.cut, method="integrated_gradients", level="input")
        got, gap = attributor.attribute(
            shape.inputs["input_ids"],
            1,
            shape.inputs["attention_mask"],
            n_steps=20,
            baselines=start[0, 0] if baseline == "pad" else None,
            internal_batch_size=3,
            return_convergence_delta=True,
        )
        close(got, expected.sum(-1))
        torch.testing.assert_close(gap, delta, rtol=1e-6, atol=1e-8)  # the sum minus the difference
    finally:
        if baseline == "pad":
            with torch.no_grad():
                shape.model.get_input_embeddings().weight[shape.model.config.pad_token_id] = padding_vector


@pytest.mark.parametrize("family", FAMILIES)
def test_occlusion_is_feature_ablation_over_tokens(family):
    shape = Shape(family)
    tokens = torch.arange(shape.vectors.shape[1])[None, :, None].expand_as(shape.vectors)
    method = captum.attr.FeatureAblation(shape.forward)
    for baseline in (0.0, 0.3):
        expected = method.attribute(shape.vectors, target=1, feature_mask=tokens, baselines=baseline)[..., 0]
        given = torch.full((shape.vectors.shape[-1],), baseline, dtype=torch.float64)
        close(shape.ours("occlusion", baseline=given), expected)
    of_each_token = torch.linspace(-0.4, 0.4, shape.vectors.numel(), dtype=torch.float64).view_as(shape.vectors)
    expected = method.attribute(shape.vectors, target=1, feature_mask=tokens, baselines=of_each_token)[..., 0]
    close(shape.ours("occlusion", baseline=of_each_token), expected)


def test_omission_is_no_ablation():
    shape = Shape("bert")
    close(shape.ours("occlusion"), shape.ours("occlusion", baseline=torch.zeros(32)))
    assert not torch.allclose(shape.ours("omission").nan_to_num(), shape.ours("occlusion"))


@pytest.mark.parametrize("level", ["attention", "input"])
@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "FLANrnn"])
def test_the_mask_is_bound_by_name(family, level):
    """In GPT-2 the second positional argument is another."""
    done = in_double(family)
    ids, mask = done.inputs["input_ids"], done.inputs["attention_mask"]
    second = list(inspect.signature(done.model.forward).parameters)[1]
    assert (second == "attention_mask") == (family != "gpt2")
    attributor = Attributor(
        done.cut, method="gradient_x_attention" if level == "attention" else "occlusion", level=level
    )
    ways = [mask, (mask,), [mask], {"attention_mask": mask}, ({"attention_mask": mask},)]
    first, *others = [attributor.attribute(ids, None, way) for way in ways]
    assert all(torch.equal(first, other) for other in others)
    assert torch.equal(first, attributor.attribute(ids, additional_forward_args=mask))
    assert first.shape == ids.shape
    assert not first[mask == 0].any()
    single = attributor.attribute(ids[1:, :6], additional_forward_args=mask[1:, :6])
    torch.testing.assert_close(first[1:, :6], single, rtol=1e-4 if family == "llama" else 1e-9, atol=1e-9)


def test_other_model_inputs_come_by_name():
    done = in_double("bert")
    ids, mask = done.inputs["input_ids"], done.inputs["attention_mask"]
    types = torch.zeros_like(ids)
    types[:, 4:] = 1
    attributor = Attributor(done.cut, method="gradient")
    plain = attributor.attribute(ids, 0, mask)
    typed = attributor.attribute(ids, 0, {"attention_mask": mask, "token_type_ids": types})
    assert not torch.allclose(plain, typed)
    for wrong in ((mask, types), "mask", 3):
        with pytest.raises(af.InputError, match="expected the attention mask"):
            attributor.attribute(ids, 0, wrong)


def test_it_is_a_captum_attribution():
    attributor = Attributor(in_double("bert").cut, method="integrated_gradients", level="input")
    assert isinstance(attributor, captum.attr.Attribution)
    assert attributor.has_convergence_delta()
    assert attributor.multiplies_by_inputs
    plain = Attributor(in_double("bert").cut, method="occlusion", level="input")
    assert not plain.has_convergence_delta()
    with pytest.raises(af.InputError, match="no convergence delta"):
        plain.attribute(in_double("bert").inputs["input_ids"][:1], return_convergence_delta=True)
    for wrong in (0, -3, 2.5):
        with pytest.raises(af.InputError, match="n_steps to be a whole number"):
            attributor.attribute(in_double("bert").inputs["input_ids"][:1], n_steps=wrong)
        with pytest.raises(af.InputError, match="internal_batch_size to be a whole number"):
            attributor.attribute(in_double("bert").inputs["input_ids"][:1], internal_batch_size=wrong)


@pytest.mark.parametrize("targets", [1, [2, 0], (2, 0), torch.tensor([2, 0]), torch.tensor(1)])
def test_targets_as_captum_gives_them(targets):
    done = in_double("FLANrnn")
    attributor = Attributor(done.cut, method="gradient", level="input")
    mask = done.inputs["attention_mask"]
    got = attributor.attribute(done.inputs["input_ids"], targets, mask)
    listed = torch.as_tensor(targets).expand(2).tolist()
    for text, target in enumerate(listed):
        each = attributor.attribute(done.inputs["input_ids"], target, mask)
        torch.testing.assert_close(got[text], each[text], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("level", "name"), [("attention", "gradient_x_attention"), ("input", "integrated_gradients")])
@pytest.mark.parametrize("family", ["bert", "gpt2", "FLANrnn"])
def test_captum_s_metrics_accept_it(family, level, name):
    model = model_of(family)
    inputs = inputs_of(model)
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    attributor = Attributor(model, method=name, level=level, steps=3)
    perturb = af.perturb_tokens(7, share=0.4, special_ids=[0, 1, 2], seed=0)
    settings = {"perturb_func": perturb, "n_perturb_samples": 3, "target": 1}
    result = sensitivity_max(attributor.attribute, ids, additional_forward_args=mask, **settings)
    assert result.shape == (2,)
    assert result.isfinite().all()
    assert (result > 0).all()
    again = af.perturb_tokens(7, share=0.4, special_ids=[0, 1, 2], seed=0)
    pieces = sensitivity_max(
        attributor.attribute, ids, additional_forward_args=mask, **(settings | {"perturb_func": again})
    )
    torch.testing.assert_close(pieces, result)
    alone = sensitivity_max(attributor.attribute, ids[:1], **settings)
    assert alone.shape == (1,)

    def forward(given):
        return model(input_ids=given, attention_mask=torch.ones_like(given)).logits.softmax(-1)

    scores = attributor.attribute(ids[:1], 1)
    with torch.no_grad():
        settings = {"target": 1, "n_perturb_samples": 50}
        torch.manual_seed(0)
        exact = infidelity(forward, perturb.with_change, ids[:1], scores, **settings)
        worse = infidelity(forward, perturb.with_change, ids[:1], scores + 5.0, **settings)
    assert exact.shape == (1,)
    assert exact.isfinite().all()
    assert worse > exact


@pytest.mark.parametrize("level", ["attention", "input"])
def test_a_tuple_in_is_a_tuple_out(level):
    """As captum's own attributions do: its metrics count on it."""
    done = in_double("FLANrnn")
    attributor = Attributor(done.cut, method="random", level=level)
    mask = done.inputs["attention_mask"]
    expected = attributor.attribute(done.inputs["input_ids"], None, mask)
    got = attributor.attribute((done.inputs["input_ids"],), None, mask)
    assert isinstance(got, tuple)
    assert len(got) == 1
    assert torch.equal(got[0], expected)
    with pytest.raises(af.InputError, match=r"tuple|one"):
        attributor.attribute((done.inputs["input_ids"], mask), None, mask)


def test_perturbing_tokens():
    ids = torch.cat((torch.zeros(400, 1), torch.full((400, 20), 9), torch.ones(400, 3)), dim=1).long()
    perturb = af.perturb_tokens([5, 6], share=0.3, special_ids=[0, 1], seed=0)
    change, perturbed = perturb.with_change(ids)
    assert torch.equal(change.bool(), perturbed != ids)
    assert (perturbed != ids).any(1).all()
    assert not (perturbed != ids)[:, [0, 21, 22, 23]].any()
    assert set(perturbed[perturbed != ids].tolist()) == {5, 6}
    assert change[:, 1:21].mean() == pytest.approx(0.3, abs=0.03)
    rare = af.perturb_tokens(5, share=1e-9, special_ids=[0, 1], seed=0)(ids)
    assert ((rare != ids).sum(1) == 1).all()
    again = af.perturb_tokens([5, 6], share=0.3, special_ids=[0, 1], seed=0)
    assert torch.equal(again((ids,))[0], perturbed)
    with pytest.raises(af.InputError, match="Expected token ids"):
        perturb(ids.float())
    for wrong in (0, 1.5, -1):
        with pytest.raises(af.InputError, match="share"):
            af.perturb_tokens(5, share=wrong)


@pytest.mark.parametrize("replacement", [7, [7, 8], [7, 7], torch.arange(5, 12)])
def test_a_change_is_where_the_id_is_another(replacement):
    """A token that would be replaced by itself is replaced by another one, or not said to be."""
    ids = torch.randint(5, 12, (40, 9), generator=torch.Generator().manual_seed(1))
    ids[:, 0] = 0
    changed, perturbed = af.perturb_tokens(replacement, share=0.5, special_ids=[0], seed=3).with_change(ids)
    assert torch.equal(changed.bool(), perturbed != ids)
    choices = torch.as_tensor(replacement).reshape(-1)
    assert bool(torch.isin(perturbed[changed.bool()], choices).all())
    possible = ids != 0 if len(choices.unique()) > 1 else (ids != 0) & (ids != 7)
    assert bool((changed.sum(1) >= possible.any(1)).all())
    assert 0.4 < float(changed.sum() / possible.sum()) < 0.6
