"""`FaithfulnessCallback`: how faithful attention is while a model is trained with Transformers' Trainer."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from attnfaith import validation
from attnfaith.attribution.attributor import Attributor
from attnfaith.attribution.method import ATTENTION
from attnfaith.errors import InputError
from attnfaith.estimates.lookup import SummaryLookup
from attnfaith.evaluation.evaluator import Evaluator
from attnfaith.evaluation.verdict_rule import efficiency_of
from attnfaith.functional.agreement import kendall

BESIDE = "gradient_x_attention"
"""The ranking whose agreement with attention is logged."""


class FaithfulnessCallback(TrainerCallback):
    """Logs how faithful attention is on a few texts, at every evaluation of a Trainer.

    The figures are logged by the Trainer itself, so they are in ``trainer.state.log_history``, on TensorBoard and
    wherever else its metrics go, and `Trainer.evaluate` returns them:

    - ``eval_attention_median_fraction``: the median share of items that must be removed in the order of attention until
      the decision flips; infinity where fewer than half of the decisions flip
    - ``eval_attention_never_flipped``: the share of decisions that never flip
    - ``eval_attention_efficiency``: how near the number removed is to that of the smallest sets known, 1 at best; an
      upper bound where these are not exact
    - ``eval_attention_agreement``: the mean Kendall's tau with gradient x attention, at the final attention

    What is undefined is NaN. Training is not changed: with and without the callback, the weights are the same. In mixed
    precision the figures are computed in the precision of the weights. Several processes (``torchrun``) share the texts
    and have the same figures; the first reports them.

    Args:
        trainer: the Trainer to which the callback is added.
        texts: a list of texts (or of pairs), the same at each evaluation; some dozens are enough to see a trend.
        tokenizer: by default the Trainer's ``processing_class``.
        level: where items are erased, "attention" or "input"; by default where the verdict looks: at the attention of a
            HAN or FLAN, else at the input.
        batch_size: texts in a batch. It changes numbers by rounding only.

    Example:
        >>> import tempfile
        >>> import torch, transformers
        >>> import attnfaith as af
        >>> texts = ["a fine film", "a dull film", "fine acting", "a dull plot"]
        >>> tokenizer = af.models.WordTokenizer.train(texts, min_count=1)
        >>> model = af.models.from_preset("FLANnoenc", num_labels=2, tokenizer=tokenizer)
        >>> rows = [{**tokenizer(text), "label": number % 2} for number, text in enumerate(texts)]
        >>> arguments = transformers.TrainingArguments(
        ...     tempfile.mkdtemp(), max_steps=1, eval_strategy="steps", eval_steps=1, report_to=[], disable_tqdm=True
        ... )
        >>> trainer = transformers.Trainer(
        ...     model, arguments, train_dataset=rows, eval_dataset=rows, processing_class=tokenizer
        ... )
        >>> trainer.add_callback(af.training.FaithfulnessCallback(trainer, texts))
        >>> metrics = trainer.evaluate()
        {'eval_loss': ...
        >>> "eval_attention_efficiency" in metrics
        True
    """

    def __init__(
        self,
        trainer: Trainer,
        texts: Sequence[str] | Sequence[tuple[str, str]],
        *,
        tokenizer: Any = None,
        level: str | None = None,
        batch_size: int = 32,
    ) -> None:
        if not isinstance(trainer, Trainer):
            raise InputError(
                f"Expected the Trainer to which the callback is added, got {validation.short_repr(trainer)}. Make the "
                "Trainer first: trainer.add_callback(FaithfulnessCallback(trainer, texts))."
            )
        if getattr(trainer, "is_fsdp_enabled", False) or getattr(trainer, "is_deepspeed_enabled", False):
            raise InputError(
                "The Trainer splits the weights of the model between processes (FSDP or DeepSpeed), so no process can "
                "evaluate it. Evaluate a checkpoint instead, with af.Evaluator."
            )
        self.trainer = trainer
        self.texts = list(texts)
        if isinstance(texts, str) or not self.texts:
            raise InputError(f"Expected texts to be a list of texts or pairs, got {validation.short_repr(texts)}.")
        self.level = validation.one_of(level, (None, "attention", "input"), "level")
        self.batch_size = validation.whole_number(batch_size, "batch_size", least=1)
        tokenizer = trainer.processing_class if tokenizer is None else tokenizer
        if tokenizer is None:
            raise InputError("The Trainer has no processing_class: pass the model's tokenizer as tokenizer=.")
        self.tokenizer = tokenizer
        self._follow()  # refuses now what could not be evaluated later
        if self.level is None:
            self.level = "attention" if self._evaluator.cut.adapter.may_be_affine else "input"
        self._last: tuple[Any, dict[str, float]] | None = None

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Log the figures, once for each state of the weights."""
        model: Any = self.trainer.model
        weights = tuple((id(weight), weight._version) for weight in model.parameters())
        now = (state.global_step, weights)
        first = self._last is None or self._last[0] != now
        if first:
            figures = self.figures()
            # Equal in all processes, to the bit: each decides by them which checkpoint is the best.
            self._last = now, self._evaluator.processes.agreed(figures)
        assert self._last is not None
        figures = {f"eval_{name}": value for name, value in self._last[1].items()}
        if first:  # with several evaluation sets there are several evaluations of one state
            self.trainer.log(dict(figures))
        kwargs["metrics"].update(figures)

    def figures(self) -> dict[str, float]:
        """The figures of the model as it is now, by their names without ``eval_``."""
        self._follow()
        pairs = not isinstance(self.texts[0], str)
        rows = [dict(zip(("text", "second"), text, strict=True)) if pairs else {"text": text} for text in self.texts]
        results = self._evaluator.compute(
            rows,
            second_input_column="second" if pairs else None,
            label_column=None,
            rankings=[ATTENTION],
            level=self.level,
            tests=["erasure"],
            n_resamples=1,
            batch_size=self.batch_size,
            quiet=True,
        )
        summary, level = SummaryLookup(results.summary()), str(self.level)
        key = summary.key_of(level, ATTENTION)
        assert key is not None
        return {
            "attention_median_fraction": summary.get(level, "median_fraction", key).value,
            "attention_never_flipped": summary.get(level, "never_flipped", key).value,
            "attention_efficiency": efficiency_of(summary, level, key).value,
            "attention_agreement": self._agreement(),
        }

    def _follow(self) -> None:
        """Evaluate the model that the Trainer has now; with ``model_init`` it makes another one at the start."""
        model: Any = self.trainer.model
        if getattr(self, "_model", None) is model:
            return
        # A shallow copy has the same weights. In it, the forward function is not the one of mixed precision, which
        # accelerate puts into the model: figures are computed in the precision of the weights.
        plain = copy.copy(model)
        if "_original_forward" in vars(plain):
            vars(plain).pop("forward", None)
        self._evaluator = Evaluator(plain, self.tokenizer)
        self._attributors = [
            Attributor(self._evaluator.cut, self.tokenizer, method=method, batch_size=self.batch_size)
            for method in (ATTENTION, BESIDE)
        ]
        self._model = model

    def _agreement(self) -> float:
        """The mean of Kendall's tau over the texts that have one."""
        taus = []
        for attention, beside in zip(*(attributor(self.texts) for attributor in self._attributors), strict=True):
            scores = torch.tensor([[attention.scores, beside.scores]], dtype=torch.float64)
            taus.append(float(kendall(scores, torch.ones(scores.shape[::2], dtype=torch.bool)).tau[0, 0, 1]))
        defined = [tau for tau in taus if not math.isnan(tau)]
        return math.fsum(defined) / len(defined) if defined else math.nan
