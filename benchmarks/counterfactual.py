"""What other attention costs, as ratios to plain forward passes over the same texts, measured in the same run.

python -m benchmarks.counterfactual
python -m benchmarks.counterfactual --only permutation
python -m benchmarks.counterfactual --only adversarial --texts 32

CPU time of one thread is what is compared, so that a busy machine changes nothing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

from attnfaith.evaluation.tests.adversarial.test import Adversarial
from attnfaith.evaluation.tests.permutation.test import Permutation
from benchmarks.erasure import again, batches, forward, setup_for
from benchmarks.tail import SHAPES, bert, line, ratios, seconds, text

TEXTS, LENGTH = 500, 128
SHAPE = "MiniLM (6 x 384)"


def main() -> None:
    """Print every ratio with the limit that is claimed for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each ratio is measured; the median is printed")
    parser.add_argument("--texts", type=int, default=TEXTS, help="how many; the ratios hardly depend on it")
    parser.add_argument("--only", choices=PARTS, help="one part by itself")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name, part in PARTS.items():
        if options.only in (None, name):
            part(options.rounds, options.texts)


def permutation(rounds: int, texts: int) -> None:
    """A hundred shuffles of every text, beyond the capture."""
    model, inputs = bert(*SHAPES[SHAPE]), text(texts, LENGTH)
    config = setup_for(model, ["attention"])
    captured = batches(config, inputs)

    def shuffle() -> None:
        for batch in captured:
            Permutation().run(again(batch))

    costs = ratios(
        rounds,
        lambda: forward(model, inputs),
        lambda: batches(config, inputs),
        shuffle,
        calls=1,
        clock=time.process_time,
    )
    print(f"{SHAPE}, {texts} texts of {LENGTH} tokens, in plain forward passes over the same texts")
    line("100 permutations of each text, beyond the capture", costs[1], 0.5)
    line("times faster than 100 forward passes with edited attention", 100 / costs[1], 200, least=True)
    print(f"  (the capture: {costs[0]:.3f})")


def adversarial(rounds: int, texts: int) -> None:
    """The search with its 5 x 500 steps, beyond the capture; measured once, since with 500 texts it takes minutes.

    With no room for the output to move, every step runs the tail backwards too: the most that a search can cost.
    """
    model, inputs = bert(*SHAPES[SHAPE]), text(texts, LENGTH)
    captured = batches(setup_for(model, ["attention"]), inputs)
    print(f"{SHAPE}, {texts} texts of {LENGTH} tokens, in plain forward passes over the same texts")
    forward(model, inputs)
    unit = seconds(lambda: forward(model, inputs), rounds, time.process_time)
    for room, test in (("no room", Adversarial(epsilon=1e-12)), ("epsilon 0.01", Adversarial())):

        def search(test: Adversarial = test) -> None:
            for batch in captured:
                test.run(again(batch))

        cost = seconds(search, 1, time.process_time) / unit
        line(f"5 x 500 steps for each text, {room}", cost, 25)


PARTS: dict[str, Callable[[int, int], None]] = {"permutation": permutation, "adversarial": adversarial}

if __name__ == "__main__":
    main()
