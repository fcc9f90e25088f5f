"""What rankings cost, against captum and against plain passes, as ratios measured in the same run.

python -m benchmarks.attribution
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
from captum.attr import FeatureAblation, InputXGradient, IntegratedGradients

import attnfaith as af
from attnfaith.attribution import find_method
from attnfaith.attribution.request import MethodOptions, Request
from attnfaith.functional.decision import Decision
from benchmarks.tail import SHAPES, bert, line, ratios, text

BATCH, LENGTH = 8, 128
STEPS = 50  # of integrated gradients at the input, for both
AT_ATTENTION = ("random", "attention", "gradient", "gradient_x_attention", "integrated_gradients", "lrp", "occlusion")


def main() -> None:
    """Print every ratio with the limit that is claimed for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each ratio is measured; the median is printed")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(2)
    model = bert(*SHAPES["MiniLM (6 x 384)"])
    inputs = text(BATCH, LENGTH)
    cut = af.cut(model)
    against_captum(model, inputs, cut, rounds)
    against_passes(model, inputs, cut, rounds)


def against_captum(model: Any, inputs: dict[str, torch.Tensor], cut: af.Cut, rounds: int) -> None:
    """Input-level methods; captum works on word vectors, at the batch sizes that suit it best here."""
    print(f"MiniLM (6 x 384), {BATCH} texts of {LENGTH} tokens; times captum's best setting")
    mask = inputs["attention_mask"]
    vectors = model.get_input_embeddings()(inputs["input_ids"]).detach()
    with torch.no_grad():
        target = model(**inputs).logits.argmax(-1)

    def probability(vectors: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return model(inputs_embeds=vectors, attention_mask=mask).logits.softmax(-1)

    groups = torch.arange(LENGTH).view(1, LENGTH, 1).expand(1, LENGTH, vectors.shape[-1])
    theirs: dict[str, list[Callable[[], Any]]] = {
        "gradient_x_input": [
            lambda: InputXGradient(probability).attribute(vectors.clone(), target=target, additional_forward_args=mask)
        ],
        "integrated_gradients": [
            lambda size=size: IntegratedGradients(probability).attribute(
                vectors, target=target, additional_forward_args=mask, n_steps=STEPS, internal_batch_size=size
            )
            for size in (16, 64)
        ],
        "occlusion": [lambda size=size: _ablate(probability, vectors, target, mask, groups, size) for size in (1, 4)],
    }
    for name, settings in theirs.items():
        ours = _method(cut, inputs, "input", name, target)
        repetitions = 1 if name == "occlusion" else rounds
        values = ratios(repetitions, ours, *settings, calls=1)
        line(f"{name}: captum's time relative to ours", min(values), 1.0, least=True)


def _ablate(forward: Any, vectors: Any, target: Any, mask: Any, groups: Any, size: int) -> Any:
    with torch.no_grad():
        return FeatureAblation(forward).attribute(
            vectors, target=target, additional_forward_args=mask, feature_mask=groups, perturbations_per_eval=size
        )


def against_passes(model: Any, inputs: dict[str, torch.Tensor], cut: af.Cut, rounds: int) -> None:
    """LRP against a forward and backward pass; the attention level against a forward pass."""
    print(f"MiniLM (6 x 384), {BATCH} texts of {LENGTH} tokens; in plain passes of the same batch")
    vectors = model.get_input_embeddings()(inputs["input_ids"]).detach()
    target = torch.zeros(BATCH, dtype=torch.long)

    def there_and_back() -> None:
        leaf = vectors.clone().requires_grad_()
        logits = model(inputs_embeds=leaf, attention_mask=inputs["attention_mask"]).logits
        torch.autograd.grad(logits[:, 0].sum(), leaf)

    def forward() -> None:
        with torch.no_grad():
            model(**inputs)

    for parameter in model.parameters():
        parameter.requires_grad_(False)  # as inside: gradients of the vectors alone
    (relevance,) = ratios(rounds, there_and_back, _method(cut, inputs, "input", "lrp", target), calls=1)
    line("lrp at the input, in forward and backward passes", relevance, 1.4)
    parts = [_method(cut, inputs, "attention", name, target) for name in AT_ATTENTION]
    costs = ratios(rounds, forward, *parts, _method(cut, inputs, "attention", "greedy", target), calls=1)
    line("the seven methods at the attention level together, after the capture", sum(costs[:-1]), 0.6)
    for name, cost in zip(AT_ATTENTION, costs, strict=False):
        print(f"    {name:<28}{cost:.3f}")
    print(f"  greedy, by itself{costs[-1]:>60.3f}")


def _method(
    cut: af.Cut, inputs: dict[str, torch.Tensor], level: str, name: str, target: torch.Tensor
) -> Callable[[], Any]:
    """A call of one method on the batch, the capture made beforehand."""
    capture, output = cut.capture(**inputs), "log_odds" if name == "lrp" else "probability"
    method, settings = find_method(level, name), MethodOptions(steps=STEPS if level == "input" else None)

    def run() -> Any:  # on a new request each time, since a request keeps what its methods have in common
        texts = tuple(range(BATCH))
        return method.run(
            Request(cut, inputs, target, output, Decision(), settings, text_ids=texts, known_capture=capture)
        )

    return run


if __name__ == "__main__":
    main()
