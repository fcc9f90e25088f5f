"""`RunProgress`: how far a run is, and how long the rest takes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from attnfaith.adapters.pass_count import count_passes
from attnfaith.data.source import DataSource, Row
from attnfaith.evaluation.profile import Profile
from attnfaith.evaluation.text_cost import TextCost
from attnfaith.parameter_names import parameter
from attnfaith.progress import ProgressLog, duration

FORECAST_SHARE = 0.03
"""The forecast comes when this share of the run is done,"""
FORECAST_SECONDS = (2.0, 20.0)  # in the first second much is done for the first time
"""but not before the first of these times, and at the second one at the latest."""
LONG = 600.0
"""Seconds from which on the forecast says what would be cheaper."""


SAMPLE = 512
"""Rows of which the lengths are measured before the run."""
_BLOCK = 8  # rows of the sample that stand side by side in the data


def sample_of(source: DataSource) -> list[Row]:
    """Rows from all parts of the data; none of a stream."""
    if source.rows is None:
        return []
    apart = max(1, source.rows // SAMPLE)
    return [row for _, rows in source.shards(_BLOCK, index=0, of=apart) for row in rows]


class RunProgress:
    """Estimates what is left of a run, in work and not in texts: a long text is more work than a short one.

    The work of a text is what `TextCost` expects of its length. How much of it was really needed, and how long it took,
    is measured on the batches that are done, and inside a batch at each forward pass. What is done once for all rows of
    a shard (they are read and tokenized, and the results are written) goes by the number of rows.

    Args:
        cost: the expected work of texts.
        log: where progress is shown.
        rows: the rows of the data that this process runs; None for a stream.
        total: the rows that all processes run.
        sample: the lengths in tokens of the texts of each batch, of batches of texts from all parts of the data.
        profile: of the run.
        at_most: whether the run can end before all these rows are read.

    Attributes:
        forecast: the seconds that the run was expected to take when the forecast was made; None before.
        taken: the seconds since the start, at the last event.
    """

    def __init__(
        self,
        cost: TextCost,
        log: ProgressLog,
        *,
        rows: int | None,
        total: int | None,
        sample: Sequence[Sequence[int]],
        profile: Profile,
        at_most: bool = False,
    ) -> None:
        self._at_most = at_most
        self._cost, self._log, self._rows, self._total = cost, log, rows, total
        self._profile, self._clock = profile, profile.clock
        self.forecast: float | None = None
        self.taken = 0.0
        lengths = sorted(length for batch in sample for length in batch)
        self._mean = sum(map(self._cost.work, sample)) / len(lengths) if lengths else 0.0
        self._typical = lengths[len(lengths) // 2] if lengths else 0
        self._start = self._clock()
        self._rows_done = self._rows_skipped = self._texts_run = 0
        self._rows_of_shard = 0  # rows of the open shard that are not done
        self._work_of_shard = 0.0  # the expected work of its texts that are not done
        self._rows_opened = 0  # rows of all shards that were opened,
        self._for_shards = 0.0  # the seconds that this took,
        self._batch_ended = self._start  # and when the next one was begun
        self._done = 0.0  # the expected work of the batches that were run,
        self._needed = 0.0  # and the work that they needed
        self._passes = 0  # texts in the full forward passes of these batches
        self._batch = 0.0  # the expected work of the batch that is being run,
        self._in_batch = 0.0  # and what was done of it

    def skip(self, rows: int) -> None:
        """Rows that were done before this run, or that need no work."""
        self._rows_done += rows
        self._rows_skipped += rows
        self._show()

    def open_shard(self, batches: Sequence[Sequence[int]]) -> None:
        """A shard is begun: the lengths of the texts of each batch that is left of it."""
        self._rows_of_shard, self._work_of_shard = sum(map(len, batches)), sum(map(self._cost.work, batches))
        self._rows_opened += self._rows_of_shard
        self._for_shards += self._clock() - self._batch_ended

    @contextmanager
    def batch(self, lengths: Sequence[int]) -> Iterator[None]:
        """A batch is run inside."""
        self._batch, self._in_batch = self._cost.work(lengths), 0.0
        with count_passes(self._on_pass) as count:
            yield
        self._passes += count.rows
        self._done += self._batch
        self._needed += self._in_batch
        self._work_of_shard -= self._batch
        self._rows_of_shard -= len(lengths)
        self._rows_done += len(lengths)
        self._texts_run += len(lengths)
        self._batch = self._in_batch = 0.0
        self._batch_ended = self._clock()
        self._show()

    def seconds_left(self) -> float | None:
        """The time that the rest takes; None if it cannot be known."""
        left, counted = self._work_left, self._needed + self._in_batch
        if left is None or not counted:
            return None
        in_passes = self._profile.seconds_with_passes()
        beside = self._clock() - self._start - in_passes - self._for_shards
        share = self._share_of_batch
        # The open batch has most of what is no full pass behind it: tests at the final attention come first.
        beyond = left - (1.0 - share) * self._batch
        per_work = in_passes / counted * self._needed_share
        for_shards = self._for_shards / self._rows_opened * self._rows_beyond if self._rows_opened else 0.0
        return per_work * left + beside / (self._done + self._batch) * beyond + for_shards

    @property
    def _needed_share(self) -> float:
        """How much of the expected work was really needed, since decisions flipped early."""
        return self._needed / self._done if self._done and self._needed else 1.0

    @property
    def _share_of_batch(self) -> float:
        """How much of the open batch is done: it slows down beyond what is expected, and never stands still."""
        if not self._batch:
            return 0.0
        share = self._in_batch / (self._batch * self._needed_share)
        return share if share < 0.8 else 1.0 - 0.2 * math.exp(-(share - 0.8) / 0.2)

    @property
    def _work_left(self) -> float | None:
        """The expected work that is not done."""
        if self._rows is None:
            return None
        return self._rows_beyond * self._mean + self._work_of_shard - self._share_of_batch * self._batch

    @property
    def _rows_beyond(self) -> int:
        """The rows of shards that are not opened."""
        return max(0, (self._rows or 0) - self._rows_done - self._rows_of_shard)

    def _on_pass(self, rows: int, width: int) -> None:
        self._profile.note(rows, width)
        self._in_batch += rows * self._cost.forward(width) * self._cost.weight(self._profile.current)
        self._show()

    def _show(self) -> None:
        self.taken = self._clock() - self._start
        left = self.seconds_left()
        share = None
        if left is not None and self._work_left is not None:
            skipped = self._rows_skipped * self._mean
            done = skipped + self._done + self._share_of_batch * self._batch
            share = done / (done + self._work_left)
        count = f"{self._rows_done:,} texts"
        if self._rows and self._total:  # what this process did, for all of them
            done_by_all = min(self._total, round(self._rows_done * self._total / self._rows))
            count = f"{done_by_all:,} of {self._total:,} texts"
        if self.forecast is None:
            self._make_forecast(left)
        self._log.show(share, count, left)

    def _make_forecast(self, left: float | None) -> None:
        spent = self.taken
        first, last = FORECAST_SECONDS
        if self._rows is None:
            if spent >= last:
                self.forecast = math.inf
                self._log.say(
                    "The data are a stream of unknown length, so there is no forecast of the whole run; "
                    f"{self._rows_done / spent * 60:.0f} texts a minute."
                )
            return
        if left is None:
            return
        total = spent + left
        # inside the first batch the share that is done is a guess
        if spent >= last or (self._done and spent >= max(first, FORECAST_SHARE * total)):
            self.forecast = total
            self._log.say(self._forecast_line(total, self._rows, self._total or self._rows))

    def _forecast_line(self, seconds: float, rows: int, total: int) -> str:
        expected = self._cost.passes(self._typical)
        passes = self._passes / self._texts_run if self._texts_run else sum(expected.values())
        skipped = "" if not self._rows_skipped else " that are left"
        texts = round((1 - self._rows_skipped / rows) * total)
        count = max(1, round(passes))
        most = "At most " if self._at_most else ""
        line = (
            f"{most}{texts:,} texts{skipped}, about {count:,} {'pass' if count == 1 else 'passes'} through the model "
            f"for each: about {duration(seconds)} on this machine."
        )
        if seconds <= LONG:
            return line
        rankings = {name: count for name, count in expected.items() if "/" in name}
        name = max(rankings, key=rankings.__getitem__, default="")
        share = rankings[name] / sum(expected.values()) if name else 0.0
        cheaper = [f"fewer texts ({parameter('precision')} or {parameter('max_texts')})"]
        if share >= 0.1:
            percent = f"{share:.0%}".replace("%", " %")
            cheaper.append(f"{parameter('rankings')} without {name} ({percent} of the passes)")
        if len(self._cost.config.rankings) > 1:
            cheaper.append(parameter("level", "attention"))
        return f"{line} Cheaper: {', '.join(cheaper[:-1])}{' or ' if len(cheaper) > 1 else ''}{cheaper[-1]}."
