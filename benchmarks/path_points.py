"""What integrated gradients at the input cost with as many points as each text needs, and what that changes.

python -m benchmarks.path_points
python -m benchmarks.path_points --model minilm-agnews --data ag_news-test --texts 50

Scores by as many points as needed, and by 50, beside those by 256 points: Kendall's tau, the completeness gap, and the
estimates of the erasure test, whose differences are given relative to the width of their intervals. Needs the folder
named by ATTNFAITH_DATA (docs/data.md).
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy.stats import kendalltau

import attnfaith as af
from benchmarks.tail import line

DENSE = 256
AS_NEEDED = "as_needed"
RULES: dict[str, int | None] = {AS_NEEDED: None, "50": 50, str(DENSE): DENSE}
Scores = dict[tuple[int, ...], list[float]]
"""By the ids of a text."""


def main() -> None:
    """Print every claim with its limit, and the numbers behind it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="minilm-sst2")
    parser.add_argument("--data", default="sst2-dev")
    parser.add_argument("--texts", type=int, default=200)
    options = parser.parse_args()
    if "ATTNFAITH_DATA" not in os.environ:
        print("left out: ATTNFAITH_DATA is not set (docs/data.md)")
        return
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    folder = Path(os.environ["ATTNFAITH_DATA"])
    texts = pd.read_parquet(folder / f"{options.data}.parquet")["text"].sample(options.texts, random_state=0).tolist()
    attributor = af.Attributor(folder / "models" / options.model, method="integrated_gradients", level="input")
    print(f"{options.model}, {len(texts)} texts of {options.data}")
    by_rule = {name: scores(attributor, texts, name, steps) for name, steps in RULES.items()}
    compare(folder / "models" / options.model, texts, by_rule)


def scores(attributor: af.Attributor, texts: Sequence[str], name: str, steps: int | None) -> Scores:
    """The scores by one rule; its passes and gaps are printed."""
    assert attributor.encoder is not None
    encoded, result = attributor.encoder.encode(texts), {}
    gaps, passes = [], []
    for batch in attributor.encoder.batches(encoded, 16):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of gaps: they are printed here
            _, scored = attributor.score(attributor.encoder.collate([encoded[index] for index in batch]), steps=steps)
        assert scored.gap is not None
        full_change = (scored.values.sum(-1) + scored.gap).abs().clamp_min(1e-2)
        gaps += (scored.gap.abs() / full_change).tolist()
        passes += [float(steps)] * len(batch) if scored.passes is None else scored.passes.tolist()
        for row, index in enumerate(batch):
            result[tuple(encoded[index].ids)] = scored.values[row][scored.mask[row]].tolist()
    print(
        f"  {name}: {np.mean(passes):.1f} passes a text (most {max(passes):.0f}); completeness gap: mean "
        f"{100 * np.mean(gaps):.2f} %, above 5 % in {sum(gap > 0.05 for gap in gaps)} texts",
        flush=True,
    )
    return result


def compare(model: Path, texts: Sequence[str], by_rule: dict[str, Scores]) -> None:
    """The rankings and the estimates of erasure by each rule, beside those of the dense one."""
    dense = by_rule[str(DENSE)]
    results = af.Evaluator(model).compute(
        list(texts),
        rankings=["attention"],
        explanations={
            name: lambda encoded, by_text=by_text: by_text[tuple(encoded.ids)] for name, by_text in by_rule.items()
        },
        level="input",
        tests=["erasure"],
        n_resamples=999,
        quiet=True,
    )
    table = results.summary()
    table = table[table["low"].notna() & (table["slice"] == "all") & (table["other"] == "")]  # no comparisons
    of_dense = table[table["ranking"] == str(DENSE)].set_index("figure")
    for name, by_text in by_rule.items():
        if name == str(DENSE):
            continue
        taus = [kendalltau(values, dense[ids]).statistic for ids, values in by_text.items()]
        print(f"  {name}: Kendall's tau to {DENSE} points: mean {np.mean(taus):.4f}, least {min(taus):.3f}")
        of_rule = table[table["ranking"] == name].set_index("figure").loc[of_dense.index]
        widths = (of_dense["high"] - of_dense["low"]).clip(lower=1e-12)
        relative = (of_rule["value"] - of_dense["value"]).abs() / widths
        for figure, share in relative.items():
            print(
                f"    {figure}: {of_rule['value'][figure]:.4f}, {of_dense['value'][figure]:.4f} ({share:.3f} intervals)"
            )
        line(f"{name}: largest difference, in widths of its interval", float(relative.max()), 0.1)


if __name__ == "__main__":
    main()
