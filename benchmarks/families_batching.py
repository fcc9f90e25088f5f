"""Does the batch size change a number? Every model type of the installed Transformers, evaluated at both levels.

python -m benchmarks.families_batching
python -m benchmarks.families_batching bert mistral --sizes 3 8
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import nn
from transformers import PreTrainedTokenizerFast
from transformers.utils import logging

import attnfaith as af
from attnfaith.adapters.dummy_inputs import config_value
from attnfaith.errors import AttnFaithError
from attnfaith.tiny_models import VOCABULARY, WINDOW, model_types, tiny_model

FIRST_WORD = 16  # below are the ids that configurations use as special tokens
LENGTHS = (3 * WINDOW, 5, 2 * WINDOW, 9, 3, 2 * WINDOW + 3, 12, 7)  # words; the longest passes every tiny window
TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-6}
"""How far floats may lie apart; many families compute a softmax or a norm in float32 whatever their precision."""


@dataclass(frozen=True)
class Result:
    """One family.

    Attributes:
        family: the model type.
        status: "equal", "differs", "refused" (with a reason), or "failed" (an error that attnfaith does not document).
        detail: where it differs, or why it was refused.
        notes: the notes of the run.
        flips: the share of the rows of the erasure test in which the decision flips; 0 would prove nothing.
    """

    family: str
    status: str
    detail: str = ""
    notes: tuple[str, ...] = ()
    flips: float = math.nan


def main() -> None:
    """Print a line for each family, and the totals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", help="model types; all of them by default")
    parser.add_argument("--sizes", nargs="+", type=int, default=[8], help="batch sizes that are compared with 1")
    parser.add_argument("--sides", nargs="+", default=["right", "left"], choices=["right", "left"], help="of padding")
    parser.add_argument("--rankings", nargs="+", default=None, help="all of them by default")
    parser.add_argument("--single", action="store_true", help="in float32, where close scores may change places")
    parser.add_argument("--attention", choices=["eager", "sdpa"], help="implementation; the family's own by default")
    options = parser.parse_args()
    logging.set_verbosity_error()
    torch.set_num_threads(1)
    dtype = torch.float32 if options.single else torch.float64
    results = []
    for family in options.families or model_types():
        for side in options.sides:
            start = time.perf_counter()
            settings: dict[str, Any] = {"side": side, "attention": options.attention}
            settings |= {"sizes": options.sizes, "rankings": options.rankings or "all"}
            result = compare(family, dtype=dtype, **settings)
            if result.status == "refused" and not options.single:  # some families cannot compute in float64
                result = compare(family, dtype=torch.float32, **settings)
            results.append(result)
            duration = time.perf_counter() - start
            flips = "" if math.isnan(result.flips) else f" flips {result.flips:.2f}"
            print(f"{family:<24}{side:<6}{result.status:<9}{duration:5.1f} s{flips}  {result.detail}", flush=True)
            for note in result.notes:
                print(f"{'':<30}note: {note}", flush=True)
    for side in options.sides:
        chosen = Counter(result.status for result in results[options.sides.index(side) :: len(options.sides)])
        print(f"padding on the {side}: " + ", ".join(f"{count} {status}" for status, count in chosen.most_common()))


def compare(
    family: str,
    *,
    sizes: Sequence[int],
    side: str = "right",
    rankings: str | Sequence[str] = "all",
    dtype: torch.dtype = torch.float64,
    tolerance: float | None = None,
    attention: str | None = None,
    scale: float | None = None,
    lengths: Sequence[int] = LENGTHS,
    **options: Any,
) -> Result:
    """Evaluate made-up texts of one family with batch size 1 and with others, and compare every table.

    Args:
        family: a model type.
        sizes: the other batch sizes.
        side: where the tokenizer pads.
        rankings: as for `Evaluator.compute`.
        dtype: the dtype of the model.
        tolerance: how far floats may lie apart; by default as `TOLERANCES` says.
        attention: the implementation of its attention.
        scale: the gain of its weights.
        lengths: words of each text.
        **options: for `Evaluator.compute`.
    """
    try:
        model = tiny_model(family, dtype=dtype, attn_implementation=attention, scale=scale)
        evaluator = af.Evaluator(model, tokenizer_for(model, side))
        data = [{"text": text} for text in texts(lengths)]
        settings: dict[str, Any] = {"rankings": rankings, "steps": 4, "n_resamples": 9, "level": "both", **options}
        alone = evaluator.compute(data, batch_size=1, quiet=True, **settings)
        notes = tuple(alone.manifest["notes"])
        differs = [
            f"batch size {size}: {difference}"
            for size in sizes
            for difference in differences(
                alone,
                evaluator.compute(data, batch_size=size, quiet=True, **settings),
                TOLERANCES[dtype] if tolerance is None else tolerance,
            )
        ]
    except AttnFaithError as error:
        return Result(family, "refused", " ".join(str(error).split()))
    except Exception as error:  # the other families are still worth knowing
        return Result(family, "failed", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
    flips = float((~alone.table("erasure")["censored"]).mean())
    return Result(family, "differs" if differs else "equal", "; ".join(differs[:4]), notes, flips)


def tokenizer_for(model: nn.Module, side: str) -> PreTrainedTokenizerFast:
    """Words by number, between the start and end tokens of the model's configuration."""
    ids = {
        "[BOS]": config_value(model.config, "bos_token_id", "bos_index", "cls_token_id"),
        "[EOS]": config_value(model.config, "eos_token_id", "eos_index", "sep_token_id"),
        "[PAD]": config_value(model.config, "pad_token_id", "pad_index"),
        "[MASK]": 4,
        "[UNK]": 3,
    }
    special_ids: dict[str, int] = {}
    for name, number in zip(ids, (0, 2, 1, 4, 3), strict=True):
        configured = ids[name]
        special_ids[name] = configured if isinstance(configured, int) and 0 <= configured < FIRST_WORD else number
    vocabulary = {**special_ids, **{f"w{number}": number for number in range(FIRST_WORD, VOCABULARY)}}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single="[BOS] $A [EOS]", special_tokens=[("[BOS]", special_ids["[BOS]"]), ("[EOS]", special_ids["[EOS]"])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="[BOS]",
        eos_token="[EOS]",
        pad_token="[PAD]",
        unk_token="[UNK]",
        mask_token="[MASK]",
        padding_side=side,
        model_input_names=["input_ids", "attention_mask"],
    )


def texts(lengths: Sequence[int]) -> list[str]:
    """Texts of these lengths; no word twice in a text, as equal scores would be ordered by rounding."""
    draw = random.Random(0)
    return [" ".join(f"w{word}" for word in draw.sample(range(FIRST_WORD, VOCABULARY), count)) for count in lengths]


def differences(first: af.Results, second: af.Results, tolerance: float) -> list[str]:
    """The differences between two runs: integers and labels in rows that are not marginal, floats beyond tolerance."""
    messages = []
    for name in ("texts", "erasure", "single_weight"):
        left, right = first.table(name), second.table(name)
        if len(left) != len(right) or list(left.columns) != list(right.columns):
            messages.append(f"{name} has {len(left)} and {len(right)} rows")
            continue
        certain = ~(left["marginal"] | right["marginal"]) if "marginal" in left else pd.Series(True, left.index)
        for column in left.columns:
            wrong = [
                row
                for row, (a, b) in enumerate(zip(left[column], right[column], strict=True))
                if certain.iloc[row] and not same(a, b, tolerance)
            ]
            if wrong and column != "marginal":
                a, b = left[column].iloc[wrong[0]], right[column].iloc[wrong[0]]
                ranking = f" ({left['ranking'].iloc[wrong[0]]})" if "ranking" in left else ""
                messages.append(f"{name}.{column} in {len(wrong)} of {len(left)} rows, as {a} and {b}{ranking}")
    return messages


def same(a: Any, b: Any, tolerance: float) -> bool:
    """Equal values, or floats within the tolerance; missing is equal to missing."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or abs(a - b) <= tolerance * max(1.0, abs(a))
    missing = [value is None or value is pd.NA for value in (a, b)]
    return all(missing) if any(missing) else bool(a == b)


if __name__ == "__main__":
    main()
