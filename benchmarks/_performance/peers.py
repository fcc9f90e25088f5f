"""Other libraries at the same work as attnfaith: the same model and texts, in the same process.

A library that is not installed, or that fails, is a row with the reason.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import torch

import attnfaith as af
from attnfaith.text.encoder import TextEncoder
from benchmarks._performance import measuring
from benchmarks._performance.material import Material
from benchmarks._performance.rows import Row

STEPS = 50
SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)
TEN = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""The shares of ferret."""
FASTER = "x our time"


@dataclass(frozen=True)
class Work:
    """One kind of work.

    Attributes:
        package: the name of the package of the other library, as it is installed.
        words: the work.
        theirs: makes calls of the other library, one for each setting; the fastest counts.
        ours: makes the call of attnfaith.
        note: where the work is not quite the same.
        dear: expensive work is measured on one text of this many.
    """

    package: str
    words: str
    theirs: Callable[[Material], Sequence[Callable[[], Any]]]
    ours: Callable[[Material], Callable[[], Any]]
    note: str = ""
    dear: int = 1


def beside(material: Material, rounds: int) -> Iterator[Row]:
    """The time of each other library over that of attnfaith, the median of some rounds."""
    for work in WORKS:
        label = f"{work.package}: {work.words}"
        try:
            label = f"{work.package} {version(work.package)}: {work.words}"
            first = replace(material, texts=material.texts[:2])
            _round(work.theirs(first), work.ours(first))  # the first calls of a process are slower
            chosen = replace(material, texts=material.texts[: max(2, len(material.texts) // work.dear)])
            theirs, ours = work.theirs(chosen), work.ours(chosen)
            ratio = statistics.median(_round(theirs, ours) for _ in range(rounds))
            yield Row(label, ratio, FASTER, 1, least=True, note=work.note)
        except PackageNotFoundError:
            yield Row(label, None, limit=1, least=True, note="not installed")
        except Exception as error:  # of another library: the rest is still worth measuring
            message = " ".join(f"{type(error).__name__}: {error}".split())
            yield Row(label, None, limit=1, least=True, note=f"it failed: {message[:200]}")
    yield from naive_loop(material)


def _round(theirs: Sequence[Callable[[], Any]], ours: Callable[[], Any]) -> float:
    own_seconds = _seconds(ours)
    return min(_seconds(call) for call in theirs) / own_seconds


def _seconds(call: Callable[[], Any]) -> float:
    start = measuring.now()
    call()
    return measuring.now() - start


# ---- attnfaith


def _ranking(name: str, **options: Any) -> Callable[[Material], Callable[[], Any]]:
    def prepare(material: Material) -> Callable[[], Any]:
        attributor = af.Attributor(material.model, material.tokenizer, method=name, level="input", **options)
        return lambda: attributor(material.texts)

    return prepare


def _test(test: Any, rankings: Sequence[str] = (), **options: Any) -> Callable[[Material], Callable[[], Any]]:
    """A test of one given ranking at the input; the random order, which is always there, makes it two."""

    def prepare(material: Material) -> Callable[[], Any]:
        evaluator = af.Evaluator(material.model, material.tokenizer)
        rows = [{"text": text} for text in material.texts]
        explanations = {"explanations": {"given": _made_up}} if not rankings else {}
        settings = {
            "rankings": list(rankings),
            **explanations,
            "tests": [test],
            "n_resamples": 9,
            "quiet": True,
            **options,
        }
        return lambda: evaluator.compute(rows, **settings)

    return prepare


def _made_up(encoded: Any) -> list[float]:
    return np.random.default_rng(len(encoded.ids)).random(len(encoded.ids)).tolist()


# ---- what others take


def _inputs(material: Material) -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor]:
    """All texts in one batch, their word vectors, and the predicted classes."""
    encoder = TextEncoder(material.tokenizer, material.model, None)
    inputs = dict(encoder.collate(encoder.encode(material.texts)))
    with torch.no_grad():
        vectors = material.model.get_input_embeddings()(inputs["input_ids"])
        target = material.model(**inputs).logits.argmax(-1)
    return inputs, vectors, target


def _probability(material: Material) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    def forward(vectors: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = material.model(inputs_embeds=vectors, attention_mask=mask).logits
        return logits.softmax(-1)

    return forward


def _captum_path(material: Material) -> Sequence[Callable[[], Any]]:
    from captum.attr import IntegratedGradients

    inputs, vectors, target = _inputs(material)
    method, mask = IntegratedGradients(_probability(material)), inputs["attention_mask"]
    common = {"target": target, "additional_forward_args": mask, "n_steps": STEPS}
    return [
        lambda size=size: method.attribute(vectors, internal_batch_size=max(size, len(vectors)), **common)
        for size in (16, 64)
    ]


def _captum_occlusion(material: Material) -> Sequence[Callable[[], Any]]:
    from captum.attr import FeatureAblation

    inputs, vectors, target = _inputs(material)
    count = vectors.shape[1]
    groups = torch.arange(count).view(1, count, 1).expand(1, *vectors.shape[1:])
    method = FeatureAblation(_probability(material))
    common = {"target": target, "additional_forward_args": inputs["attention_mask"], "feature_mask": groups}

    def ablate(size: int) -> Any:
        with torch.no_grad():
            return method.attribute(vectors, perturbations_per_eval=size, **common)

    return [lambda size=size: ablate(size) for size in (1, 4)]


def _interpreto(name: str, **options: Any) -> Callable[[Material], Sequence[Callable[[], Any]]]:
    def prepare(material: Material) -> Sequence[Callable[[], Any]]:
        import interpreto

        def explainer(size: int) -> Any:
            return getattr(interpreto, name)(
                material.model,
                material.tokenizer,
                batch_size=size,
                granularity=interpreto.Granularity.ALL_TOKENS,
                **options,
            )

        return [lambda size=size: explainer(size)(material.texts) for size in (4, 32)]

    return prepare


def _interpreto_metrics(material: Material) -> Sequence[Callable[[], Any]]:
    import interpreto
    from interpreto.attributions.metrics import Deletion, Insertion

    granularity = interpreto.Granularity.ALL_TOKENS
    saliency = interpreto.Saliency(material.model, material.tokenizer, granularity=granularity)
    explained = saliency(material.texts)

    def both(size: int) -> None:
        for kind in (Deletion, Insertion):
            metric = kind(material.model, material.tokenizer, batch_size=size, n_perturbations=len(SHARES))
            for _ in range(2):  # two rankings, as ours
                metric.evaluate(explained)

    return [lambda size=size: both(size) for size in (4, 32)]


def _quantus(material: Material) -> Sequence[Callable[[], Any]]:
    import quantus

    inputs, vectors, target = _inputs(material)

    class Images(torch.nn.Module):
        """Word vectors as the pixels of an image of one channel."""

        def __init__(self) -> None:
            super().__init__()
            self.model = material.model

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            rows = len(images)
            mask = inputs["attention_mask"][:1].expand(rows, -1) if rows != len(vectors) else inputs["attention_mask"]
            logits: torch.Tensor = self.model(inputs_embeds=images[:, 0], attention_mask=mask).logits
            return logits

    images = vectors.unsqueeze(1).numpy()
    generator = np.random.default_rng(0)
    scores = np.repeat(generator.random(images.shape[:3])[..., None], images.shape[3], axis=3)
    metric = quantus.PixelFlipping(
        features_in_step=images.shape[3], perturb_baseline="black", disable_warnings=True, normalise=False
    )

    def flip() -> None:
        for _ in range(2):  # two rankings, as ours
            metric(Images().eval(), images, target.numpy(), scores, batch_size=len(images), device="cpu")

    return [flip]


def _ferret(material: Material) -> Sequence[Callable[[], Any]]:
    from ferret import AOPC_Comprehensiveness_Evaluation, AOPC_Sufficiency_Evaluation, GradientExplainer

    explainer = GradientExplainer(material.model, material.tokenizer)
    explained = [explainer.compute_feature_importance(text, target=1) for text in material.texts]
    evaluations = [
        kind(material.model, material.tokenizer)
        for kind in (AOPC_Comprehensiveness_Evaluation, AOPC_Sufficiency_Evaluation)
    ]

    def both() -> None:
        for evaluation in evaluations:
            for explanation in explained * 2:  # two rankings, as ours
                evaluation.compute_evaluation(explanation, target=1)

    return [both]


def naive_loop(material: Material) -> Iterator[Row]:
    """The erasure test as a loop: for each ranking and each prefix a forward pass of one text, at each level."""
    rankings = {
        "attention": ["attention", "gradient", "gradient_x_attention", "integrated_gradients", "lrp", "occlusion"],
        "input": ["input/attention"],
    }
    encoder = TextEncoder(material.tokenizer, material.model, None)
    encoded = encoder.encode(material.texts)
    for level, names in rankings.items():
        prefixes = len(names) + 1  # the random order is one more

        def loop(prefixes: int = prefixes) -> None:
            with torch.no_grad():
                for text in encoded:
                    inputs = encoder.collate([text])
                    for _ in range(prefixes * len(text.ids)):
                        material.model(**inputs)

        ours = _test("erasure", names, level=level)(material)
        ours()
        ratio = _seconds(loop) / _seconds(ours)
        work = f"a naive loop over {prefixes} rankings, every prefix a forward pass, erased at the {level} level"
        yield Row(work, ratio, FASTER, 100 if level == "attention" else 1, least=True, note="the whole call, as a user")


RATIONALES = af.tests.Rationales(shares=SHARES)
WORKS = (
    Work(
        "captum", f"integrated gradients, {STEPS} points", _captum_path, _ranking("integrated_gradients", steps=STEPS)
    ),
    Work(
        "captum",
        f"integrated gradients, {STEPS} points against our default",
        _captum_path,
        _ranking("integrated_gradients"),
        note="ours takes as many points as a text needs",
        dear=4,
    ),
    Work("captum", "occlusion of every token", _captum_occlusion, _ranking("occlusion")),
    Work(
        "interpreto",
        f"integrated gradients, {STEPS} points",
        _interpreto("IntegratedGradients", n_perturbations=STEPS),
        _ranking("integrated_gradients", steps=STEPS),
        dear=4,
    ),
    Work("interpreto", "occlusion of every token", _interpreto("Occlusion"), _ranking("occlusion")),
    Work(
        "interpreto",
        f"deletion and insertion of two rankings in {len(SHARES)} steps",
        _interpreto_metrics,
        _test(RATIONALES, level="input"),
        note="ours: comprehensiveness and sufficiency at as many shares, with intervals",
    ),
    Work(
        "ferret-xai",
        "comprehensiveness and sufficiency of two rankings at ten shares",
        _ferret,
        _test(af.tests.Rationales(shares=TEN), level="input"),
    ),
    Work(
        "quantus",
        "pixel flipping of word vectors, every prefix of two rankings",
        _quantus,
        _test("erasure", level="input", hide="zero"),
        note="ours stops at the flip, and looks for the smallest sets too",
    ),
)
