"""The batch size changes no number of the default tests: both levels, texts longer than the windows.

Erasure in batches of several sizes is compared with full forward passes, for every family, in
`tests/independent/test_transformers.py`. Here are families that differ in how they treat padding and masks, all that
are refused, and what that test leaves out: the single-weight test and rankings at the input.
"""

import pytest
import torch

from attnfaith.tiny_models import WINDOW, model_types
from benchmarks.families_batching import LENGTHS, compare
from tests.helpers.comparing import NO_DOUBLE, REFUSED, computes_in_float32, inputs_of
from tests.helpers.installed_families import and_others, installed
from tests.helpers.removal_batches import model_of

SIZES = (8,)
"""All texts in one batch, against one by one."""
BETWEEN = 3
"""Also tried in the quick families, padded on the right."""
RANKINGS = ("attention", "gradient_x_attention", "gradient_x_input")
QUICK = ("bert", "deberta-v2")
VARIED = installed("""bart axk2 eurobert gemma2 gpt2 gpt_neo llama longformer markuplm mistral mpnet modernbert nemotron
roformer t5 xlnet xlm""")
UNMADE = ("layoutlmv2",)
"""It needs a package that is not installed."""
NO_VECTORS = ("longformer",)
"""Rankings that read word vectors are refused where they are named."""
SCALES = {"markuplm": 2.0}
"""Of the weights, where at 1 no text flips."""
EAGER = ("mistral", "modernbert", "phi3")
"""With a window, and an implementation whose softmax is uniform in a row that is masked everywhere."""


def evaluated(family, side, **more):
    """One family in float64 where it has it; floats are held to what its own computations allow."""
    dtype = torch.float32 if family in (*NO_DOUBLE, *UNMADE) or more.get("attention") else torch.float64
    tolerance = 1e-5
    if dtype == torch.float64:
        model = model_of(family)
        tolerance = 1e-6 if computes_in_float32(model, inputs_of(model)) else 1e-10
    rankings = RANKINGS[:2] if family in NO_VECTORS else RANKINGS
    options = {"scale": SCALES.get(family), **more}
    sizes = (BETWEEN, *SIZES) if family in QUICK and side == "right" and not more else SIZES
    return compare(family, sizes=sizes, side=side, rankings=rankings, dtype=dtype, tolerance=tolerance, **options)


def others():
    named = [*QUICK, *VARIED, *REFUSED]
    assert set(named) <= set(model_types())
    marks = {**dict.fromkeys(QUICK, ()), **dict.fromkeys(REFUSED, pytest.mark.slow)}
    return [pytest.param(name, marks=marks.get(name, pytest.mark.families)) for name in named]


@pytest.mark.parametrize("family", others())
def test_a_batch_is_its_texts_one_by_one(family):
    assert max(LENGTHS) > 2 * WINDOW
    result = evaluated(family, "right")
    if family in REFUSED or result.status == "refused":
        assert family in REFUSED
        assert len(result.detail) > 40  # with the reason
        return
    assert (result.status, result.detail) == ("equal", "")
    assert result.flips > 0.1, "hardly a decision flips: this proves nothing"


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", and_others(["bert", "gpt2"], ["t5", "llama", "mistral", "modernbert", "deberta-v2", "gte", "ctrl"])
)
def test_padding_on_the_left_changes_no_result(family):
    """Also where the model reads left padding: then only texts of one length share a batch."""
    result = evaluated(family, "left")
    assert (result.status, result.detail) == ("equal", "")
    assert result.flips > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("family", and_others(EAGER[:1], EAGER[1:]))
def test_the_implementation_of_attention_changes_no_result(family):
    result = evaluated(family, "right", attention="eager")
    assert (result.status, result.detail) == ("equal", "")


@pytest.mark.slow
@pytest.mark.parametrize("hide", ["mask_token", "pad", "zero", "delete"])
@pytest.mark.parametrize("family", and_others(["bert"], ["mistral", "deberta-v2"]))
def test_batching_changes_no_result_of_the_other_ways_of_hiding(family, hide):
    result = evaluated(family, "right", hide=hide)
    assert (result.status, result.detail) == ("equal", "")
    assert result.flips > 0.1
