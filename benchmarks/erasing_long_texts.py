"""What erasing at the input costs on long texts, and what its schedule of steps misses.

python -m benchmarks.erasing_long_texts
python -m benchmarks.erasing_long_texts --only schedule --data yelp5-test --texts 40

The part "schedule" needs the folder named by ATTNFAITH_DATA (docs/data.md).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import attnfaith as af
from attnfaith.adapters.pass_count import PassCount, count_passes
from attnfaith.attribution.request import MethodOptions
from attnfaith.data.source import Row
from attnfaith.evaluation.batch import Batch, RunConfig
from attnfaith.evaluation.rankings import rankings_for
from attnfaith.evaluation.tests.erasure.test import Erasure
from attnfaith.evaluation.tests.single_weight.test import SingleWeight
from attnfaith.evaluation.token_hiding import hiding_for
from attnfaith.functional.decision import decision_of
from attnfaith.functional.schedule import LONG
from benchmarks.tail import bert, line, text

LENGTHS = (128, 256, 512, 1024)


def main() -> None:
    """Print each number with the limit that is claimed for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, help="one part by itself")
    parser.add_argument("--model", default="minilm-sst2", help="of the part schedule")
    parser.add_argument("--data", default="imdb-test", help="of the part schedule")
    parser.add_argument("--texts", type=int, default=12, help="of the part schedule")
    parser.add_argument("--longest", type=int, default=256, help="tokens of a text in the part schedule")
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    for name, part in PARTS.items():
        if options.only in (None, name):
            part(options)


def length(options: argparse.Namespace) -> None:
    """Passes for each text of a model of which no decision flips: the most expensive case.

    How many sets are run does not depend on the width of the model, so it is a narrow one.
    """
    model = bert(2, 48, 96, positions=max(LENGTHS))
    with torch.no_grad():
        model.classifier.bias.copy_(torch.tensor([10.0, -10.0]))  # which decides whatever the text says
    passes = {}
    print("Default rankings, both levels, no decision flips")
    for tokens in LENGTHS:
        count = PassCount()
        for batch in batches(model, text(2, tokens)):
            with count_passes() as part:
                batch = Batch(batch.config, batch.rows, [], batch.inputs)  # with its capture
                Erasure().run(batch)
                SingleWeight().run(batch)
            count.rows, count.positions = count.rows + part.rows, count.positions + part.positions
        passes[tokens] = count.rows / 2
        in_texts = count.positions / (2 * tokens)
        print(f"  {tokens} tokens: {passes[tokens]:.0f} passes a text, as many positions as {in_texts:.0f} whole texts")
    line("passes for a text of 512 tokens", passes[512], 400)
    line("passes at 1,024 tokens over those at 128", passes[1024] / passes[128], 1.25)


def batches(model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> Iterator[Batch]:
    """One batch, as the Evaluator makes it, from ids instead of texts."""
    cut = af.cut(model)
    config = RunConfig(cut, decision_of(model.config, 2), MethodOptions(pad_id=0))
    rows = [Row(number, "") for number in range(len(inputs["input_ids"]))]
    ranked = {
        level: tuple(rankings_for(level, "default", {}, by_token=True, affine=False))
        for level in ("attention", "input")
    }
    single = {name: value[:1] for name, value in inputs.items()}
    hiding = hiding_for(cut, single, hide=None, mask_id=None, left=False)
    yield Batch(replace(config, rankings=ranked, hiding=hiding), rows, [], inputs)


def schedule(options: argparse.Namespace) -> None:
    """How often, and by how much, a flip is found later with the schedule than with every step."""
    if "ATTNFAITH_DATA" not in os.environ:
        print("real texts: left out (set ATTNFAITH_DATA)")
        return
    folder = Path(os.environ["ATTNFAITH_DATA"])
    evaluator = af.Evaluator(folder / "models" / options.model, max_length=options.longest)
    texts = pd.read_parquet(folder / f"{options.data}.parquet")["text"]
    words = texts.str.split().str.len()
    texts = texts[(words > LONG) & (words < 0.75 * options.longest)].sample(options.texts, random_state=0).tolist()
    encoded = evaluator.encoder.encode(texts)
    joined_tables, passes = [], dict.fromkeys(("schedule", "exact"), 0)
    for number, encoded_text in enumerate(encoded):
        inputs = evaluator.encoder.collate([encoded_text])
        (batch,) = batches(evaluator.cut.model, inputs)
        tables = {}
        for resolution in passes:
            config = replace(batch.config, rankings={"input": batch.config.rankings["input"]})
            batch = Batch(config, [Row(number, "")], [encoded_text], inputs)
            for ranking in batch.config.rankings["input"]:
                batch.scores(ranking, "input")
            with count_passes() as count:
                tables[resolution] = pd.DataFrame(Erasure(resolution=resolution).run(batch))
            passes[resolution] += count.rows
        joined_tables.append(pd.concat((tables["exact"], tables["schedule"].add_suffix("_scheduled")), axis=1))
    rows = pd.concat(joined_tables, ignore_index=True)
    exact, scheduled = (rows[name].fillna(1.0) for name in ("fraction", "fraction_scheduled"))
    differs, gap = rows["removed"].fillna(-1) != rows["removed_scheduled"].fillna(-1), scheduled - exact
    print(f"{options.model}, {options.data}, {len(encoded)} texts of {rows['items'].mean():.0f} tokens, all rankings")
    print(f"  exact by its own account: {(rows['resolution_scheduled'] == 'exact').mean():.1%} of the rows")
    missed = rows["censored"] < rows["censored_scheduled"]
    print(f"  seen later than by every step: {differs.mean():.1%}; never seen: {missed.mean():.1%}")
    print(
        f"  share of the items removed, mean: {exact.mean():.4f} by every step, {scheduled.mean():.4f} by the schedule"
    )
    by_ranking = gap.groupby([rows["ranking_level"], rows["ranking"]]).mean()
    print(f"  largest difference of a ranking's mean {by_ranking.max():.4f}; of a text {gap.max():.3f}")
    smallest = [rows[name].fillna(np.inf) for name in ("minimum_high", "minimum_high_scheduled")]
    larger, smaller = (smallest[1] > smallest[0]).mean(), (smallest[1] < smallest[0]).mean()
    print(f"  the smallest set found is larger in {larger:.1%} of the rows, and smaller in {smaller:.1%}")
    cost = {name: count / len(encoded) for name, count in passes.items()}
    print(f"  passes a text: {cost['exact']:.0f} by every step, {cost['schedule']:.0f} by the schedule")


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "length": length,
    "schedule": schedule,
}

if __name__ == "__main__":
    main()
