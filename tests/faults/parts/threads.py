"""Eight threads on one model, beside a thread that trains it and one that draws random numbers."""

from __future__ import annotations

import copy
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import attnfaith as af
from tests.contracts.test_cut_leaves_nothing_behind import Snapshot, assert_untouched
from tests.faults import material
from tests.faults.tally import Part, Tally, problem_of, times
from tests.helpers import commands

THREADS = 8
CALLS = ("explain", "explain by gradients", "evaluate", "cut", "rerun", "capture")


class Work:
    """Calls on one shared model; what each gives is known from one thread."""

    def __init__(self, folder: Any, seed: int) -> None:
        self.model, self.tokenizer = material.loaded(folder)
        self.cut = af.cut(self.model)
        self.texts = commands.texts(24, seed=seed)
        self.attributors = {
            "explain": af.Attributor(self.cut, self.tokenizer, method="attention"),
            "explain by gradients": af.Attributor(self.cut, self.tokenizer, method="gradient", level="input"),
        }
        self.evaluator = af.Evaluator(self.cut, self.tokenizer)
        # Encoded beforehand: a tokenizer of Transformers keeps its padding in a state that all threads share.
        self.encoded = [self.tokenizer(self._chosen(number), padding=True, return_tensors="pt") for number in range(2)]

    def _chosen(self, number: int) -> list[str]:
        return [self.texts[(number + step) % len(self.texts)] for step in range(4)]

    def call(self, name: str, number: int) -> Any:
        """One call; the same name and number give the same."""
        chosen = self._chosen(number)
        if name in self.attributors:
            return [explanation.scores for explanation in self.attributors[name](chosen)]
        if name == "evaluate":
            data = [{"text": text} for text in chosen]
            results = self.evaluator.compute(data, level="attention", n_resamples=9, quiet=True)
            return results.summary().to_json(), results.table("erasure").to_json()
        cut = af.cut(self.model) if name == "cut" else self.cut
        capture = cut.capture(**self.encoded[number])
        if name == "capture":
            return capture.weights, capture.logits
        draws = torch.rand(capture.mask.shape, generator=torch.Generator().manual_seed(number))
        return cut.rerun(capture, keep=((draws < 0.5) & capture.mask)[:, None])


def _same(first: Any, other: Any) -> bool:
    if isinstance(first, Tensor):
        return torch.equal(first, other)
    if isinstance(first, tuple | list):
        return len(first) == len(other) and all(_same(a, b) for a, b in zip(first, other, strict=True))
    return bool(first == other)


def run(scale: float, seed: int) -> Tally:
    """Rounds of eight threads, on a FLAN and on a BERT."""
    tally = Tally()
    for family, folder in (("FLAN", material.flan_folder()), ("BERT", material.bert_folder())):
        for number in range(times(20, scale)):
            quiet_round(tally, family, Work(folder, seed + number), seed + number, calls=times(12, scale, 4))
        for number in range(times(10, scale)):
            training_round(tally, family, Work(folder, seed + number), seed + number, calls=times(12, scale, 4))
    return tally


def _together(work: Callable[[int], None], beside: Callable[[threading.Event], None]) -> None:
    """Eight threads at work, and one beside them until they are done."""
    start, over = threading.Barrier(THREADS + 1), threading.Event()

    def begin(number: int) -> None:
        start.wait()
        work(number)

    def accompany() -> None:
        start.wait()
        beside(over)

    workers = [threading.Thread(target=begin, args=(number,)) for number in range(THREADS)]
    companion = threading.Thread(target=accompany)
    for item in (*workers, companion):
        item.start()
    for worker in workers:
        worker.join()
    over.set()
    companion.join()


def quiet_round(tally: Tally, family: str, work: Work, seed: int, calls: int) -> None:
    """Each call gives what it gives in one thread; seeded draws beside them are those of a calm process."""
    plan = [(name, number) for number in range(2) for name in CALLS]
    expected = {(name, number): work.call(name, number) for name, number in plan}
    draws = [random.Random(seed * 100 + number).choices(plan, k=calls) for number in range(THREADS)]
    problems: list[tuple[str, str]] = []
    random_state = torch.random.get_rng_state()

    def job(number: int) -> None:
        for name, which in draws[number]:
            try:
                held = _same(work.call(name, which), expected[name, which])
                problems.append((name, "" if held else "another result than in one thread"))
            except BaseException as error:
                problems.append((name, problem_of(error)))

    seeded: list[str] = []

    def beside(over: threading.Event) -> None:
        while not over.is_set():
            torch.manual_seed(5)
            drawn = []
            for _ in range(10):
                drawn.append(torch.rand(3))
                time.sleep(0.0005)
            twin = torch.Generator().manual_seed(5)
            calm = torch.stack([torch.rand(3, generator=twin) for _ in range(10)])
            seeded.append("" if torch.equal(torch.stack(drawn), calm) else "seeded torch.rand gave other numbers")

    before = Snapshot(work.model)
    _together(job, beside)
    torch.random.set_rng_state(random_state)
    for name, problem in problems:
        tally.record(f"{family}: {name}, in one of eight threads", problem)
    for problem in seeded:
        tally.record(f"{family}: ten seeded draws in a thread beside them", problem)
    with tally.trial(f"{family}: the model after a round is as it was before"):
        torch.random.set_rng_state(before.torch_random)
        assert_untouched(work.model, before)


def _losses(model: Any, batch: dict[str, Tensor], over: Callable[[int], bool]) -> list[float]:
    """Train for some steps, as a user's own loop does; the loss at each."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    losses: list[float] = []
    model.train()
    while not over(len(losses)):
        assert model.training, "the model is not in training mode"
        loss = model(**batch).loss
        assert loss.requires_grad, "a pass has no graph"
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def training_round(tally: Tally, family: str, work: Work, seed: int, calls: int) -> None:
    """While eight threads use a model its owner trains it: the losses are those of a copy that is trained alone."""
    encoded = dict(work.tokenizer(work.texts[:6], padding=True, return_tensors="pt"))
    encoded["labels"] = torch.tensor([number % 2 for number in range(6)])
    for module in work.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0  # it draws from the state that all threads share
    twin = copy.deepcopy(work.model)
    got: list[float] = []
    trouble: list[str] = []

    def job(number: int) -> None:
        draw = random.Random(seed * 100 + number)
        for _ in range(calls):
            name = draw.choice(CALLS)
            try:
                work.call(name, draw.randrange(2))
                tally.record(f"{family}: a call while the model is trained")
            except BaseException as error:
                # The weights change between two passes that are compared: that may be said, in a documented way.
                problem = "" if material.documented(error) else problem_of(error)
                tally.record(f"{family}: a call while the model is trained", problem)

    def beside(over: threading.Event) -> None:
        try:
            got.extend(_losses(work.model, encoded, lambda count: count >= 20 and over.is_set()))
        except BaseException as error:
            trouble.append(problem_of(error))

    _together(job, beside)
    expected = _losses(twin, encoded, lambda count: count >= max(len(got), 20))
    for number, loss in enumerate(got):
        same = loss == expected[number]
        tally.record(
            f"{family}: a training step beside eight threads", "" if same else f"another loss at step {number}"
        )
    if trouble:
        tally.record(f"{family}: a training step beside eight threads", trouble[0])
    assert expected[0] != expected[-1], "the training does nothing: this proves nothing"


PART = Part(
    title="Threads",
    promise="Several threads may explain, evaluate, cut and edit one model at the same time, each with the "
    "results of a single thread, while another thread trains that model or draws seeded random numbers "
    "undisturbed.",
    run=run,
)
