"""`Attributor`: explain texts or ids by a score for each item, as a captum attribution."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import torch
from captum.attr import Attribution
from torch import Tensor

from attnfaith import validation
from attnfaith.adapters.cut import Cut, cut
from attnfaith.adapters.input_checks import check_inputs
from attnfaith.attribution.display_names import display_name
from attnfaith.attribution.explanation import Explanation
from attnfaith.attribution.method import LEVELS, Method, default_method, find_method
from attnfaith.attribution.model_loading import extra_inputs, load_model, where_to_cut
from attnfaith.attribution.request import MethodOptions, Request
from attnfaith.attribution.scores import InexactScores, Scores
from attnfaith.attribution.shown_lists import Explanations
from attnfaith.errors import InputError
from attnfaith.functional.decision import KINDS, OUTPUTS, Decision, decision_of
from attnfaith.parameter_names import parameter
from attnfaith.progress import progress
from attnfaith.text.encoded import EncodedText
from attnfaith.text.encoder import TextEncoder, special_ids_of
from attnfaith.types import Capture
from attnfaith.validation import short_repr

MOST_STEPS = 10**6


class Attributor(Attribution):
    """Scores every item of a text by its importance for the output of the classifier.

    Args:
        model: a classifier, the path of one, a Transformers text-classification pipeline, or a `Cut`.
        tokenizer: for calls with texts; taken from the path or pipeline where there is one.
        method: the name of a method; `attnfaith.methods()` lists them. By default "gradient_x_attention" for a HAN or
            FLAN (and for every other model whose part after the final attention is affine), and "lrp" at the input
            level for other models; where a level, layer or head is given, the one of these two at that level.
        level: "attention" (the items of the final attention) or "input" (the tokens); by default that of the default
            method, or "attention" if a method is named.
        target: "predicted", "gold" (given with each call), a class number, or a class name.
        output: the output explained: "probability", "logit" or "log_odds" (the target's logit minus the largest other).
            By default the method's own: mostly the probability; for a regression the predicted value.
        decision: "multiclass", "sigmoid", "multilabel" or "regression", if the configuration does not say.
        steps: points of an integrated path; by default as many as each text needs, 9 to 129.
        baseline: "zero", "pad", "mask", or a tensor of word vectors.
        layer: at the attention level, which attention to cut at: "final", or its number in the forward pass; for the
            method that averages layers also "mean" over all layers.
        head: at the attention level, one head to cut; all by default.
        epsilon: the stabiliser of LRP.
        max_length: texts are truncated to this many tokens, with a note; by default to the limit of the model.
        batch_size: the number of texts in a pass.
        seed: the seed of random rankings.

    Example:
        >>> import attnfaith as af
        >>> texts = ["a fine film", "a dull film", "fine acting", "dull plot"] * 2
        >>> tokenizer = af.models.WordTokenizer.train(texts, min_count=1)
        >>> model = af.models.from_preset("FLANnoenc", num_labels=2, tokenizer=tokenizer)
        >>> attributor = af.Attributor(model, tokenizer, method="gradient_x_attention")
        >>> attributor("a fine film").tokens
        ('a', 'fine', 'film')
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        method: str | None = None,
        level: str | None = None,
        target: str | int = "predicted",
        output: str | None = None,
        decision: str | None = None,
        steps: int | None = None,
        baseline: str | Tensor = "zero",
        layer: int | str = "final",
        head: int | None = None,
        epsilon: float = 1e-6,
        max_length: int | None = None,
        batch_size: int = 16,
        seed: int = 0,
    ) -> None:
        if method is not None:
            validation.text(method, "method", "the name of a method")
        if level is not None:
            validation.one_of(level, LEVELS, "level")
        if decision is not None:
            validation.one_of(decision, KINDS, "decision")
        if output is not None:
            validation.one_of(output, OUTPUTS, "output")
        validation.positive_int(max_length, "max_length")
        if not isinstance(layer, str):
            layer = validation.whole_number(layer, "layer ('final', 'mean' or a number)")
        head = None if head is None else validation.whole_number(head, "head")
        if level is None and (method is not None or (layer, head) != ("final", None)):
            level = "attention"
        chosen = None if method is None or level is None else find_method(level, method)
        model, tokenizer = load_model(model, tokenizer)
        averages_layers = chosen is not None and chosen.averages_layers
        average = layer == "mean" and head is None and averages_layers
        another_attention = (layer, head) != ("final", None) and not (average and level == "input")
        if another_attention and (isinstance(model, Cut) or level != "attention"):
            raise InputError(
                f"layer and head choose the attention to cut at. They need {parameter('level', 'attention')} and a "
                "model that is not cut yet; leave them out."
            )
        cut_options = where_to_cut(layer, head, averages_layers=averages_layers)
        self.cut = model if isinstance(model, Cut) else cut(model, **cut_options)
        self.method: Method = chosen or default_method(affine=self.cut.adapter.may_be_affine, level=level)
        super().__init__(self.cut.model)
        self.output = output or self.method.default_output
        self._asked = output is not None
        self.target, self.kind = target, decision
        self.batch_size = validation.whole_number(batch_size, "batch_size", least=1)
        self.encoder = None if tokenizer is None else TextEncoder(tokenizer, self.cut.model, max_length)
        config = getattr(self.cut.model, "config", None)
        self.settings = MethodOptions(
            steps=validation.positive_int(steps, "steps", most=MOST_STEPS),
            baseline=_baseline(baseline, "baseline"),
            layer="mean" if layer == "mean" else "final",
            epsilon=validation.number(epsilon, "epsilon", least=0),
            seed=validation.whole_number(seed, "seed"),
            pad_id=getattr(config, "pad_token_id", None),
            mask_id=getattr(tokenizer, "mask_token_id", None),
            special_ids=special_ids_of(config, tokenizer),
        )

    def __call__(self, texts: Any, target: Any = None) -> Any:
        """Explain one text, a (premise, hypothesis) pair, or a list of either.

        Args:
            texts: the text, the pair as a tuple, or a list of them.
            target: overrides that of the attributor; for a list one target, or a list of targets.

        Returns:
            An `Explanation`, or `Explanations`, a list of them in the order of the texts.
        """
        if self.encoder is None:
            raise InputError(
                "This Attributor was made without a tokenizer. Pass one, or call attribute() with ids.",
                code="wrong-tokenizer",
            )
        single = not isinstance(texts, list)
        encoded = self.encoder.encode([texts] if single else texts)
        targets = target if isinstance(target, list | tuple | Tensor) else [target] * len(encoded)
        if len(targets) != len(encoded):
            raise InputError(f"Got {len(encoded)} texts and {len(targets)} targets; expected one target for each text.")
        by_index: dict[int, Explanation] = {}
        batches = list(self.encoder.batches(encoded, self.batch_size))
        for batch in progress(batches, "explaining", quiet=len(batches) < 3):
            inputs = self.encoder.collate([encoded[index] for index in batch])
            chosen = [targets[index] for index in batch]
            request, scores = self.score(inputs, chosen, text_ids=tuple(batch))
            for row, index in enumerate(batch):
                by_index[index] = self._explanation(encoded[index], request, scores, row)
        explanations = Explanations(by_index[index] for index in range(len(encoded)))
        return explanations[0] if single else explanations

    def attribute(
        self,
        inputs: Tensor | tuple[Tensor],
        target: Any = None,
        additional_forward_args: Any = None,
        *,
        n_steps: int | None = None,
        baselines: str | Tensor | None = None,
        internal_batch_size: int | None = None,
        return_convergence_delta: bool = False,
    ) -> Any:
        """Compute scores with the signature of captum.

        Args:
            inputs: ``input_ids`` ``[B, L]``; for a tuple of one, as captum's metrics pass it, a tuple is returned.
            target: class(es) to explain; that of the attributor by default.
            additional_forward_args: the attention mask as one tensor, whatever the second argument of the model is; or
                model inputs as a dict.
            n_steps: points of an integrated path; by default as many as each text needs.
            baselines: "zero", "pad", "mask", or a tensor of word vectors.
            internal_batch_size: the largest number of texts times candidates in one pass.
            return_convergence_delta: also return ``[B]``, the sum of the scores minus the number it should be.

        Returns:
            ``[B, L]``, 0 at padding; for a HAN at the attention level ``[B, sentences]``.
        """
        input_tensors = inputs if isinstance(inputs, tuple) else (inputs,)
        if len(input_tensors) != 1:
            raise InputError(
                f"Expected input_ids alone, got {len(input_tensors)} inputs; pass the others as a dict, in "
                "additional_forward_args."
            )
        batch = check_inputs(self.cut.model, {"input_ids": input_tensors[0], **extra_inputs(additional_forward_args)})
        changes: dict[str, Any] = {"steps": validation.positive_int(n_steps, "n_steps", most=MOST_STEPS)}
        changes["baseline"] = None if baselines is None else _baseline(baselines, "baselines")
        validation.flag(return_convergence_delta, "return_convergence_delta")
        changes["chunk"] = validation.positive_int(internal_batch_size, "internal_batch_size")
        settings = {name: value for name, value in changes.items() if value is not None}
        values, gaps = [], []
        for piece, chosen, rows in self._pieces(batch, target, internal_batch_size or self.batch_size):
            if isinstance(baselines, Tensor) and baselines.dim() == 3 and len(baselines) == len(input_tensors[0]):
                settings["baseline"] = baselines[rows.start : rows.stop]
            request, scores = self.score(piece, chosen, text_ids=tuple(rows), **settings)
            values.append(to_positions(scores.values, request, self.method.level))
            gaps.append(scores.gap)
        joined: Any = _join(values)
        joined = (joined,) if isinstance(inputs, tuple) else joined
        if not return_convergence_delta:
            return joined
        if any(gap is None for gap in gaps):
            raise InputError(
                f"The scores of {self.method.name!r} need not add up to the output, so there is no convergence delta. "
                "Leave out return_convergence_delta."
            )
        return joined, -torch.cat([gap for gap in gaps if gap is not None])

    def _pieces(self, inputs: dict[str, Any], target: Any, size: int) -> Iterator[tuple[dict[str, Any], Any, range]]:
        """Split a batch of any size into batches of at most ``size`` texts, with their targets and row numbers."""
        batch = len(inputs["input_ids"])
        many = isinstance(target, list | tuple) or (isinstance(target, Tensor) and target.dim() > 0)
        if many and len(target) != batch:
            raise InputError(
                f"Got {len(target)} targets for {batch} texts; expected one target for each text, or one for all."
            )
        for start in range(0, batch, size):
            rows = range(start, min(start + size, batch))
            piece = {
                name: value[start : rows.stop] if isinstance(value, Tensor) and value.shape[:1] == (batch,) else value
                for name, value in inputs.items()
            }
            yield piece, target[start : rows.stop] if many else target, rows

    def score(
        self, inputs: dict[str, Any], target: Any = None, *, text_ids: tuple[int, ...] | None = None, **settings: Any
    ) -> tuple[Request, Scores]:
        """Score a batch of model inputs; returns the request, with target and capture, and the scores."""
        inputs = check_inputs(self.cut.model, inputs)
        batch = len(inputs["input_ids"])
        capture = self.cut.capture(**inputs)
        decision = decision_of(getattr(self.cut.model, "config", None), capture.logits.shape[-1], self.kind)
        request = Request(
            cut=self.cut,
            inputs=inputs,
            target=self._targets(target, capture, decision),
            output="logit" if decision.kind == "regression" and not self._asked else self.output,
            decision=decision,
            settings=self.settings,
            text_ids=tuple(range(batch)) if text_ids is None else text_ids,
            known_capture=capture,
        ).with_settings(**settings)
        scores = self.method.run(request)
        inexact = InexactScores.of_scores(scores)
        if inexact is not None and inexact.texts:
            warnings.warn(inexact.message(display_name((self.method.level, self.method.name))), stacklevel=2)
        return request, scores

    @property
    def multiplies_by_inputs(self) -> bool:
        """Whether scores are inputs (or weights) times a factor; used by captum's infidelity."""
        return self.method.multiplies_by_inputs

    def has_convergence_delta(self) -> bool:
        """Whether the scores have a convergence delta, see ``return_convergence_delta``."""
        return self.method.has_completeness_gap

    def _targets(self, target: Any, capture: Capture, decision: Decision) -> Tensor:
        batch = len(capture.logits)
        listed = target.tolist() if isinstance(target, Tensor) and target.dim() else target
        targets = listed if isinstance(listed, list | tuple) else [listed] * batch
        if len(targets) != batch:
            raise InputError(
                f"Got {len(targets)} targets for {batch} texts; expected one target for each text, or one for all."
            )
        predicted = decision.predict(capture.logits).tolist()
        count = decision.classes(capture.logits).shape[-1]
        resolved = [self._target(target, text, predicted[text], count) for text, target in enumerate(targets)]
        return torch.tensor(resolved, device=capture.logits.device)

    def _target(self, target: Any, text: int, predicted: int, count: int) -> int:
        target = self.target if target is None else target
        if isinstance(target, str) and target == "predicted":
            return predicted
        if isinstance(target, str) and target == "gold":
            raise InputError(
                f"{parameter('target', 'gold')} needs the gold class of every text, and none is given for text {text}. "
                f"Give the class itself as {parameter('target')}.",
                code="missing-labels",
            )
        names = getattr(getattr(self.cut.model, "config", None), "label2id", None) or {}
        if isinstance(target, str) and target in names:
            target = names[target]
        if isinstance(target, Tensor) and target.numel() == 1 and not target.is_floating_point():
            target = target.item()
        if isinstance(target, bool) or not isinstance(target, int) or not 0 <= target < count:
            class_names = f" or one of {', '.join(map(short_repr, list(names)[:20]))}" if names else ""
            raise InputError(
                f"{parameter('target')} of text {text} is {short_repr(target)}, which is no class of the model; "
                f"expected 0..{count - 1}{class_names}."
            )
        return int(target)

    def _explanation(self, encoded: EncodedText, request: Request, scores: Scores, row: int) -> Explanation:
        capture = request.capture
        sentences = self.method.level == "attention" and capture.items is not None and capture.items.kind == "sentences"
        if sentences:
            spans = capture.items.spans[row][scores.mask[row]].tolist()  # type: ignore[union-attr,index]
            values = scores.values[row][scores.mask[row]]
            shift = int(request.tokens[row].int().argmax())  # padding may be on the left
        else:
            shift = 0
            spans = [(token, token + 1) for token in range(len(encoded.ids))]
            values = to_positions(scores.values, request, self.method.level)[row][request.tokens[row]]
        decision = request.decision
        logits = capture.logits[row]
        target = int(request.target[row])
        probability = target_probability = None
        if decision.kind == "regression":
            prediction = _digits(float(logits[target]))
        else:
            predicted, probabilities = int(decision.predict(logits)), decision.probabilities(logits)
            prediction = self._name(predicted)
            probability, target_probability = float(probabilities[predicted]), float(probabilities[target])
        return Explanation(
            encoded=encoded,
            spans=tuple((int(start) - shift, int(end) - shift) for start, end in spans),
            scores=tuple(float(value) for value in values),
            unit="sentence" if sentences else "token",
            method=self.method.name,
            level=self.method.level,
            signed=self.method.signed,
            output=request.output,
            prediction=prediction,
            target=self._name(target),
            probability=probability,
            target_probability=target_probability,
            gap=None if scores.gap is None else float(scores.gap[row]),
            absorbed=None if scores.absorbed is None else float(scores.absorbed[row]),
            note=scores.note if scores.inexact is None or scores.inexact[row] else "",
        )

    def _name(self, number: int) -> str:
        names = getattr(getattr(self.cut.model, "config", None), "id2label", None) or {}
        return str(names.get(number, number))


def _baseline(baseline: Any, name: str) -> str | Tensor:
    if isinstance(baseline, Tensor):
        return baseline
    replacement: str = validation.one_of(baseline, ("zero", "pad", "mask"), f"{name} (or a tensor of word vectors)")
    return replacement


def _digits(value: float) -> str:
    """A predicted value for display: four digits, or all before the decimal point."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e15 else f"{value + 0.0:.4g}"


def to_positions(values: Tensor, request: Request, level: str) -> Tensor:
    """Convert item scores ``[B, N]`` to scores by input position ``[B, L]``; scores of sentences stay as they are."""
    items = request.capture.items
    if level == "input" or items is None or items.kind == "sentences":
        return values
    if items.spans is None:
        raise InputError(
            "This model pools its positions before the final attention: its items do not correspond to single tokens.",
            code="unsupported-ranking",
        )
    by_position = torch.zeros(request.tokens.shape, dtype=values.dtype, device=values.device)
    mask = request.capture.mask
    rows = torch.arange(len(values), device=values.device).unsqueeze(-1).expand_as(mask)
    by_position[rows[mask], items.spans[..., 0][mask]] = values[mask]
    return by_position


def _join(parts: list[Tensor]) -> Tensor:
    """Join parts of a batch; those of a HAN can have different numbers of sentences."""
    width = max(part.shape[1] for part in parts)
    return torch.cat([torch.nn.functional.pad(part, (0, width - part.shape[1])) for part in parts])
