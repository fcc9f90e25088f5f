"""The families that are compared, and why some are not, or not everywhere."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import attnfaith as af
from attnfaith.tiny_models import model_types, tiny_model
from tests.independent.decisions import Rule
from tests.independent.passes import mechanism_of
from tests.independent.texts import ids_of, rows_of
from tests.independent.transformer import Text, inputs_of

QUICK = ("bert", "llama")
VARIED = ("deberta-v2", "xlnet", "eurobert")
"""With `QUICK` of each kind that changes the comparison: both mechanisms, both ways of hiding, padding, float32."""
UNCOVERED = {
    **dict.fromkeys("canine convbert funnel nystromformer t5gemma".split(), "padding changes what the model decides"),
    **dict.fromkeys("fnet mra reformer yoso".split(), "no attention is seen"),
    "diffllama": "two attentions are subtracted: which is the final one must be said",
    "layoutlmv2": "its model needs a package that is not installed",
    **dict.fromkeys("perceiver t5gemma2".split(), "its items are not the tokens"),
}
"""Families that `attnfaith.cut` refuses, or that cannot be built."""
SINGLE = {
    "gemma2": "its own logits are NaN in float64: its mask is -inf to a softmax in float32",
    "bloom": "the same, where a row has nothing to attend",
    "mpt": "the same, where a row has nothing to attend",
    "xlnet": "its segment encoding stays float32",
}
"""Compared in float32."""
SEEDS = {"deberta": 1, "markuplm": 1, "roformer": 1, "big_bird": 2}
"""Where the decisions of the model drawn by the seed 0 hardly flip."""
_RECURRENT = "some of its layers are recurrent, and no softmax says what they read"
_MEAN = "it decides by the mean of its tokens, and only the mask says which those are"
BY_MASK = {
    "axk2": "an index chooses the tokens to attend before the softmax, so a key without weight still has a part in it",
    **dict.fromkeys(["eurobert", "zamba", "zamba2"], _MEAN),
    **dict.fromkeys("jamba minimax qwen3_5 qwen3_5_text qwen3_next".split(), _RECURRENT),
    "longformer": "its attention is laid out by distance, not by token",
}
"""Tokens are hidden from them by the mask, at full length; from all others by leaving out their keys everywhere."""
DECIDES_ON_PADDING = {
    "xlnet": "it decides at the last position, padding or not; the library refuses batches padded on the right"
}


@dataclass(frozen=True)
class Family:
    """The library's cut of a tiny model, and each text in a second copy of the model, which the library never sees."""

    name: str
    cut: af.Cut
    texts: tuple[Text, ...]
    tolerance: float

    @property
    def model(self) -> nn.Module:
        """The model as the library has it."""
        return self.cut.model


SIZES = {"multiclass": 3, "binary": 2, "sigmoid": 1, "multilabel": 3, "regression": 1}


@functools.lru_cache(maxsize=8)
def family_of(name: str, kind: str = "multiclass", tolerance: float = 0.0) -> Family:
    """Built once for all tests of a family in one process."""
    dtype = torch.float32 if name in SINGLE else torch.float64
    seed, labels = SEEDS.get(name, 0), SIZES[kind]
    rule = Rule("multiclass" if kind == "binary" else kind, tolerance)
    model = tiny_model(name, dtype=dtype, seed=seed, num_labels=labels, attn_implementation="eager")
    model.requires_grad_(False)
    mechanism = mechanism_of(model, inputs_of(ids_of(rows_of()[0])))
    texts = tuple(Text(model, ids_of(row), rule, row["given"], mechanism) for row in rows_of())
    judged = tiny_model(name, dtype=dtype, seed=seed, num_labels=labels)
    return Family(name, af.cut(judged), texts, _tolerance(judged, texts))


class _Float32(TorchFunctionMode):
    """Sees whether a model in float64 computes in float32 all the same."""

    seen = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        source = args[0] if args else None
        if isinstance(source, torch.Tensor) and isinstance(result, torch.Tensor) and source.dim() > 1:
            self.seen |= (source.dtype, result.dtype) == (torch.float64, torch.float32)
        return result


def _tolerance(judged: nn.Module, texts: tuple[Text, ...]) -> float:
    """1e-8 in float64; 1e-6 where parts of the model compute in float32 all the same; 1e-4 in float32."""
    if next(judged.parameters()).dtype == torch.float32:
        return 1e-4
    with torch.no_grad(), _Float32() as look:
        for text in texts:
            logits = judged(**text.inputs()).logits[0].tolist()
            assert logits == pytest.approx(text.logits, rel=1e-5, abs=1e-5), "not the same before anything is erased"
    return 1e-6 if look.seen else 1e-8


def covered() -> list[Any]:
    """Every family that is not listed as uncovered: some under the marker ``slow``, most under ``families``."""
    others = [name for name in model_types() if name not in (*QUICK, *VARIED, *UNCOVERED)]
    marked = {**dict.fromkeys(QUICK, ()), **dict.fromkeys(VARIED, pytest.mark.slow)}
    marked |= dict.fromkeys(others, pytest.mark.families)
    return [pytest.param(name, marks=marks) for name, marks in marked.items()]
