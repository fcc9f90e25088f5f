"""Forecast and progress of a run, on a clock that goes with the work: nothing is timed."""

import io
import itertools
import math

import datasets
import pytest
import torch

import attnfaith as af
from attnfaith.evaluation import evaluator as evaluator_module
from attnfaith.evaluation import run_progress, runner
from attnfaith.evaluation.profile import Profile
from attnfaith.progress import ProgressLog
from tests.helpers.commands import WORDS

OPTIONS = {"label_column": None, "n_resamples": 9, "rankings": ["attention", "integrated_gradients", "occlusion"]}


@pytest.fixture(scope="module")
def bert():
    """A tiny BERT that is so sure that no decision flips, with a word tokenizer."""
    from transformers import BertConfig, BertForSequenceClassification

    tokenizer = af.models.WordTokenizer.train([" ".join(WORDS)], min_count=1)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=200, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    model = BertForSequenceClassification(config).eval()
    with torch.no_grad():
        model.classifier.bias.copy_(torch.tensor([9.0, -9.0]))
    return model, tokenizer


def texts(*lengths):
    return [{"text": " ".join(WORDS[(index + place) % len(WORDS)] for place in range(size))}
            for index, size in enumerate(lengths)]  # fmt: skip


class Watched(ProgressLog):
    """Keeps all that it is told, with the time."""

    def __init__(self, what, *, quiet, clock):
        super().__init__(what, quiet=quiet, clock=clock, stream=io.StringIO())
        self.clock, self.updates, self.lines = clock, [], []
        Watched.last = self

    def show(self, share, count, left):
        self.updates.append((self.clock(), share, count, left))

    def say(self, line):
        self.lines.append((self.clock(), line))


@pytest.fixture
def watched(monkeypatch):
    """A clock that goes by the operations of the model, a second for each 2,000 tokens; backward passes count."""
    clock = lambda: clock.now  # noqa: E731
    clock.now = 0.0
    monkeypatch.setattr(evaluator_module, "Profile", lambda: clock.profile)
    monkeypatch.setattr(evaluator_module, "ProgressLog", Watched)

    def noted(module, args, kwargs):
        ids = kwargs["input_ids"] if kwargs.get("input_ids") is not None else args[0]
        attention = 1 + ids.shape[1] / (6 * 16)
        backward = torch.is_grad_enabled() and clock.profile.current != "capture"
        clock.now += ids.numel() * attention * (3 if backward else 1) / 2000

    def evaluate(model, data, **options):
        clock.profile = Profile(clock)
        handle = model[0].register_forward_pre_hook(noted, with_kwargs=True)
        try:
            evaluator = af.Evaluator(*model)
            evaluator.compute(data, **{**OPTIONS, **options})
        finally:
            handle.remove()
        return evaluator, Watched.last

    evaluate.clock = clock
    return evaluate


@pytest.mark.parametrize(
    "lengths", [[12] * 60, [8] * 40 + [60] * 20, [60] * 20 + [8] * 40, [120] * 6], ids=["even", "up", "down", "long"]
)
def test_the_forecast_comes_early_and_is_right(lengths, watched, bert):
    """Also where the first texts are no sample of all, and where the first batch takes longer than the forecast may."""
    evaluator, log = watched(bert, texts(*lengths))
    end, forecast = log.updates[-1][0], evaluator.progress.forecast
    began = log.updates[0][0]
    (when, line), *rest = log.lines
    assert not rest
    assert when - began <= max(0.15 * (end - began), run_progress.FORECAST_SECONDS[1] * 1.5)
    assert 1 / 1.5 < forecast / (end - began) < 1.5
    assert line.startswith(f"{len(lengths)} texts, about ")


def test_texts_are_read_before_the_first_batch_of_a_shard(watched, bert, monkeypatch):
    """Reading takes most of the time here. It goes by the number of texts, and not by the batches that are done."""
    encode = runner.encode

    def slow(encoder, rows, **options):
        watched.clock.now += 0.2 * len(rows)
        return encode(encoder, rows, **options)

    monkeypatch.setattr(runner, "encode", slow)
    monkeypatch.setattr(af.Evaluator, "shard_size", 32)
    evaluator, log = watched(bert, texts(*[12] * 320), rankings=["attention"], level="attention", batch_size=4)
    began, end = log.updates[0][0], log.updates[-1][0]
    assert 0.6 * (end - began) < 0.2 * 320
    assert log.lines[0][0] - began < 0.15 * (end - began)
    assert 1 / 1.2 < evaluator.progress.forecast / (end - began) < 1.2
    estimates = [when - began + left for when, _, _, left in log.updates if left is not None and when > log.lines[0][0]]
    assert max(max(estimates) / (end - began), (end - began) / min(estimates)) < 1.2


def test_progress_moves_inside_of_batches_and_its_estimate_is_honest_from_the_first_minute(watched, bert):
    _, log = watched(bert, texts(*[60] * 20, *[8] * 60))
    times, shares, counts, left = zip(*log.updates, strict=True)
    end = times[-1]
    assert max(after - before for before, after in itertools.pairwise(times)) <= 10
    known = [share for share in shares if share is not None]
    assert known == sorted(known)
    assert known[-1] == pytest.approx(1.0)
    assert counts[-1] == "80 of 80 texts"
    ratios = [
        seconds / (end - when)
        for when, seconds in zip(times, left, strict=True)
        if seconds is not None and when - times[0] >= 60 and end - when > 0.15 * (end - times[0])
    ]
    assert 1 / 1.5 < min(ratios) <= max(ratios) < 1.5


def test_a_long_run_is_told_what_would_be_cheaper(watched, bert):
    _, log = watched(bert, texts(*[60] * 40))
    ((_, line),) = log.lines
    assert "Cheaper: fewer texts (precision or max_texts), rankings without input/" in line
    assert line.endswith("of the passes) or level='attention'.")
    _, log = watched(bert, texts(*[6] * 6))
    assert "Cheaper" not in "".join(line for _, line in log.lines)


def test_a_stream_has_no_forecast_and_that_is_said(watched, bert):
    data = datasets.IterableDataset.from_generator(lambda: iter(texts(*[12] * 40)))
    evaluator, log = watched(bert, data)
    assert evaluator.progress.forecast == math.inf
    ((_, line),) = log.lines
    assert line.startswith("The data are a stream of unknown length, so there is no forecast of the whole run")
    assert all((share, left) == (None, None) for _, share, _, left in log.updates)
    assert log.updates[-1][2] == "40 texts"


def test_a_run_that_goes_on_counts_what_was_done(watched, bert, tmp_path, monkeypatch):
    monkeypatch.setattr(af.Evaluator, "shard_size", 8)
    data = texts(*[12] * 64)
    _, first = watched(bert, data, output_dir=tmp_path / "run")
    for shard in range(4, 8):
        for path in (tmp_path / "run").glob(f"*/{shard:05d}.parquet"):
            path.unlink()
    _, log = watched(bert, data, output_dir=tmp_path / "run")
    ((_, line),) = log.lines
    assert line.startswith("32 texts that are left, about ")
    shares = [share for _, share, _, _ in log.updates if share is not None]
    assert shares[0] >= 0.5
    spent = [log.updates[-1][0] - log.updates[0][0] for log in (first, log)]
    assert spent[1] < 0.6 * spent[0]


def test_the_profile_says_what_took_the_time(watched, bert):
    evaluator, log = watched(bert, texts(*[12] * 16))
    parts = evaluator.profile.parts
    assert {"capture", "input/integrated_gradients", "input/occlusion", "erasing at the input", "erasure"} <= set(parts)
    spent = sum(part.seconds for part in parts.values())
    assert spent == pytest.approx(log.updates[-1][0] - log.updates[0][0], rel=0.05)
    assert parts["input/occlusion"].passes >= 16 * 12
    assert parts["input/integrated_gradients"].seconds > parts["capture"].seconds
