"""How sure a figure is: bootstrap over texts, intervals of shares, sign tests, and the curve of what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats  # type: ignore[import-untyped, unused-ignore]

Array = NDArray[np.float64]
Seed = int | tuple[int, ...]

_CELLS = 2**21  # counts held at once: 16 MB of float64, and some more while they are drawn
_WIDTH = 8  # columns that are multiplied at once
_REACH = 4.0  # standard deviations around the middle in which a resample's median is looked for first


class Estimate(NamedTuple):
    """Figures ``[F]``, the ends of their intervals, and the number of texts behind each."""

    value: Array
    low: Array
    high: Array
    texts: NDArray[np.int64]

    def take(self, places: Any) -> Estimate:
        """Some of the figures."""
        return Estimate(self.value[places], self.low[places], self.high[places], self.texts[places])


class Resamples:
    """One set of bootstrap resamples of texts, shared by every figure, so that figures can be compared paired.

    A resample is how often each text was drawn. The draws depend on the seed and the sizes alone: every call sees the
    same ones. They are made anew in batches, so memory does not grow with ``resamples x size``. Intervals are
    percentile intervals.

    Args:
        size: the number of texts n.
        resamples: how many.
        confidence: of the intervals.
        seed: of the draws; resamples of other texts take another.

    Example:
        >>> figures = Resamples(4, seed=1).mean([[0.0, 1.0], [0.0, 2.0], [1.0, 3.0], [1.0, np.nan]])
        >>> figures.value, figures.texts
        (array([0.5, 2. ]), array([4, 3]))
        >>> float(figures.low[0]), float(figures.high[0])
        (0.0, 1.0)
    """

    def __init__(self, size: int, *, resamples: int = 9999, confidence: float = 0.95, seed: Seed = 0) -> None:
        self.size, self.resamples, self.confidence, self.seed = size, resamples, confidence, seed

    def counts(self) -> Iterator[tuple[slice, Array]]:
        """How often each resample drew each text, in batches: which resamples, and ``[batch, n]``."""
        generator = np.random.Generator(np.random.SFC64(self.seed))
        step = max(1, _CELLS // max(self.size, 1))
        for start in range(0, self.resamples if self.size else 0, step):
            rows = min(step, self.resamples - start)
            drawn = generator.integers(self.size, size=(rows, self.size))
            drawn += np.arange(rows)[:, None] * self.size
            counted = np.bincount(drawn.ravel(), minlength=rows * self.size)
            yield slice(start, start + rows), counted.reshape(rows, self.size).astype(np.float64)

    def draws(self, values: ArrayLike) -> Array:
        """The mean of each column in each resample: ``[n, F]``, finite or NaN, to ``[resamples, F]``."""
        centred, base, defined = _centre(self._matrix(values))
        masks, which = _distinct(defined)
        means = np.full((self.resamples, len(base)), np.nan)
        with np.errstate(invalid="ignore"):  # a resample without a single defined text has no mean
            for rows, counts in self.counts():
                means[rows] = _product(counts, centred) / (counts @ masks)[:, which] + base
        return means

    def median_draws(self, values: ArrayLike) -> Array:
        """The median of each column in each resample: ``[n, F]``, inf for "never", to ``[resamples, F]``.

        Only the texts around the middle are looked at, where the median of nearly every resample lies; the few
        resamples in which it does not are done in full.
        """
        columns = self._matrix(values)
        defined = ~np.isnan(columns)
        masks, which = _distinct(defined)
        below, orders, windows = np.zeros(columns.shape), [], []
        for place in range(columns.shape[1]):
            number = int(defined[:, place].sum())
            reach = _REACH * np.sqrt(number) / 2 + 2
            orders.append(np.argsort(columns[:, place], kind="stable")[:number])
            windows.append(slice(max(0, int(number / 2 - reach)), int(number / 2 + reach)))
            below[orders[place][: windows[place].start], place] = 1.0
        found = np.full((self.resamples, columns.shape[1]), np.nan)
        for rows, counts in self.counts():
            halves, before = (counts @ masks)[:, which] / 2, counts @ below
            for place, (order, window) in enumerate(zip(orders, windows, strict=True)):
                if not len(order):
                    continue
                ranked, half, start = columns[order, place], halves[:, place], before[:, place]
                summed = start[:, None] + counts[:, order[window]].cumsum(1)
                medians = _middle(ranked[window], summed, half)
                missed = ((start >= half) & (window.start > 0)) | (summed[:, -1] <= half)
                if missed.any():
                    medians[missed] = _middle(ranked, counts[missed][:, order].cumsum(1), half[missed])
                found[rows, place] = np.where(half > 0, medians, np.nan)
        return found

    def interval(self, draws: Array) -> tuple[Array, Array]:
        """The ends of the percentile intervals of figures drawn anew: ``[resamples, ...]`` to two of ``[...]``.

        Resamples in which it is NaN are left out.
        """
        ordered = np.sort(draws, axis=0)  # NaN last
        known = (~np.isnan(draws)).sum(0)
        tail = (1 - self.confidence) / 2
        return _quantile(ordered, known, tail), _quantile(ordered, known, 1 - tail)

    def mean(self, values: ArrayLike) -> Estimate:
        """Means over texts of ``[n, F]``; NaN is left out."""
        columns = self._matrix(values)
        return self.estimate(means_of(columns), self.draws(columns), (~np.isnan(columns)).sum(0))

    def median(self, values: ArrayLike) -> Estimate:
        """Medians over texts of ``[n, F]``, with inf for texts that never get there; NaN is left out.

        Between the two middle values the median is halfway; where only the lower one is finite, it is the lower one.
        So it is reached as soon as half of the texts get there, and inf, "not reached", where fewer do.

        The interval goes from one of the texts to another: as many are counted off at either end as heads are to be
        expected, at the least, among as many tosses of a coin. It covers the median of any distribution, also where
        values are equal or inf, at least as often as ``confidence`` says; a bootstrap covers it too rarely in a few
        dozen texts. With too few texts (5 at a confidence of 0.95) there is no such interval: NaN.

        Example:
            >>> Resamples(4).median([0.1, 0.3, np.inf, np.inf]).value, Resamples(3).median([0.1, np.inf, np.inf]).value
            (array([0.3]), array([inf]))
        """
        columns = self._matrix(values)
        ordered, count = np.sort(columns, axis=0), (~np.isnan(columns)).sum(0)  # NaN last
        ends = _binomial_ends(count, self.confidence)
        enough = ends > 0
        places = np.where(enough, [ends - 1, count - ends], 0)
        low, high = np.take_along_axis(ordered, places, 0) if len(ordered) else np.full(places.shape, np.nan)
        return Estimate(medians_of(columns), np.where(enough, low, np.nan), np.where(enough, high, np.nan), count)

    def share(self, values: ArrayLike) -> Estimate:
        """Shares of the texts where something is so: ``[n, F]`` of 0, 1 and NaN, which is left out.

        The interval is Wilson's: of none, or of all, every resample would say the same.
        """
        columns = self._matrix(values)
        return wilson(np.nansum(columns, axis=0), (~np.isnan(columns)).sum(0), self.confidence)

    def estimate(self, value: Array, draws: Array, count: NDArray[Any]) -> Estimate:
        """Figures with intervals from the same drawn anew ``[resamples, F]``; none where one text is behind them."""
        low, high = self.interval(draws)
        enough = count > 1
        return Estimate(value, np.where(enough, low, np.nan), np.where(enough, high, np.nan), count)

    def _matrix(self, values: ArrayLike) -> Array:
        columns = np.asarray(values, dtype=np.float64)
        columns = columns[:, None] if columns.ndim == 1 else columns
        if columns.shape[:1] != (self.size,):
            raise ValueError(f"expected one row for each of {self.size} texts, got an array {columns.shape}")
        return columns


def means_of(values: Array) -> Array:
    """Means of the columns ``[n, F]``; NaN is left out, and is the mean where there is nothing else.

    Example:
        >>> means_of(np.array([[0.1, 1.0], [0.1, np.nan], [0.1, 2.0]]))
        array([0.1, 1.5])
    """
    centred, base, defined = _centre(values)
    with np.errstate(invalid="ignore"):
        return np.ascontiguousarray(centred.T).sum(1) / defined.sum(0) + base


def medians_of(values: Array) -> Array:
    """Medians of the columns ``[n, F]``, as `Resamples.median` defines them."""
    ranked, found = np.sort(values, axis=0), np.full(values.shape[1], np.nan)
    for place, number in enumerate((~np.isnan(values)).sum(0)):
        if number:
            counted = np.arange(1.0, number + 1)
            found[place] = _middle(ranked[:number, place], counted[None], np.array([number / 2]))[0]
    return found


def wilson(hits: ArrayLike, counts: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Shares ``hits / counts`` with Wilson's score interval; NaN where there is nothing to count.

    Example:
        >>> wilson([0], [20]).high.round(3)
        array([0.161])
    """
    hit, count = np.asarray(hits, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    z = stats.norm.ppf(0.5 + confidence / 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = hit / count
        centre = (value + z**2 / (2 * count)) / (1 + z**2 / count)
        reach = z / (1 + z**2 / count) * np.sqrt(value * (1 - value) / count + z**2 / (4 * count**2))
    low = np.where(hit == 0, value, centre - reach)
    high = np.where(hit == count, value, centre + reach)
    return Estimate(value, low, high, count.astype(np.int64))


def sign_test(wins: ArrayLike, losses: ArrayLike) -> Array:
    """Two-sided p values of sign tests; ties do not take part, and where nobody wins there is no p (NaN).

    Example:
        >>> sign_test([8, 0], [1, 0]).round(4)
        array([0.0391,    nan])
    """
    won, lost = np.broadcast_arrays(np.asarray(wins, dtype=np.int64), np.asarray(losses, dtype=np.int64))
    values = [
        stats.binomtest(int(w), int(w + k)).pvalue if w + k else np.nan
        for w, k in zip(won.ravel(), lost.ravel(), strict=True)
    ]
    return np.array(values, dtype=np.float64).reshape(won.shape)


def holm(p_values: ArrayLike) -> Array:
    """P values adjusted for their number (Holm's step-down method); NaN stays NaN and is not counted.

    Example:
        >>> holm([0.01, 0.04, 0.03, np.nan])
        array([0.03, 0.06, 0.06,  nan])
    """
    raw = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(raw.shape, np.nan)
    order = np.argsort(raw, kind="stable")[: (~np.isnan(raw)).sum()]
    stepped = raw[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return adjusted


def survival(fractions: ArrayLike, grid: ArrayLike) -> Array:
    """The share of texts whose decision is still kept when a fraction is removed: ``[n, F]``, ``[T]`` to ``[T, F]``.

    A text's fraction is that at which its decision flips, inclusive; inf where it never does, NaN to leave it out.

    Example:
        >>> survival([0.5, 0.75, np.inf, np.inf], [0.0, 0.5, 1.0]).ravel()
        array([1.  , 0.75, 0.5 ])
    """
    columns = np.asarray(fractions, dtype=np.float64)
    columns = columns[:, None] if columns.ndim == 1 else columns
    points = np.asarray(grid, dtype=np.float64) + 1e-9  # 29 of 100 is at 0.29, whatever the two round to
    kept = np.full((len(points), columns.shape[1]), np.nan)
    for place, number in enumerate((~np.isnan(columns)).sum(0)):
        if number:
            kept[:, place] = 1 - np.searchsorted(np.sort(columns[:, place])[:number], points, side="right") / number
    return kept


def _centre(values: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Columns less their first defined value, NaN as 0: equal values then have equal means, exactly."""
    defined = ~np.isnan(values)
    if not len(values):
        return values, np.full(values.shape[1], np.nan), defined
    base = values[defined.argmax(0), np.arange(values.shape[1])]
    return np.where(defined, values - base, 0.0), base, defined


def _product(counts: Array, columns: Array) -> Array:
    """``counts @ columns``, eight columns at a time, the last of them padded.

    A matrix product adds up in an order that depends on the shape. With one shape, the numbers of a column are the same
    to the last bit whatever other columns there are.
    """
    found = np.empty((len(counts), columns.shape[1]))
    for start in range(0, columns.shape[1], _WIDTH):
        part = columns[:, start : start + _WIDTH]
        width = part.shape[1]
        padded = np.zeros((len(part), _WIDTH))
        padded[:, :width] = part
        found[:, start : start + width] = (counts @ padded)[:, :width]
    return found


def _distinct(defined: NDArray[np.bool_]) -> tuple[Array, NDArray[np.intp]]:
    """The different columns among masks, ``[n, M]``, and which of them each column is."""
    seen: dict[bytes, int] = {}
    which = [seen.setdefault(np.packbits(column).tobytes(), len(seen)) for column in defined.T]
    first = [which.index(number) for number in range(len(seen))]
    return defined[:, first].astype(np.float64), np.array(which, dtype=np.intp)


def _middle(ranked: Array, summed: Array, half: Array) -> Array:
    """Medians of ascending values ``[w]`` from cumulated counts ``[rows, w]`` and half the totals ``[rows]``."""
    lower = ranked[(summed >= half[:, None]).argmax(1)]
    upper = ranked[(summed > half[:, None]).argmax(1)]
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(upper) & (lower != upper), (lower + upper) / 2, lower)


def _binomial_ends(counts: NDArray[np.int64], confidence: float) -> NDArray[np.int64]:
    """The largest k for which each tail beyond the k-th of n values misses the median rarely enough: [F] to [F].

    The chance that fewer than k of n values are below the median must not exceed ``(1 - confidence) / 2``.
    """
    tail = (1 - confidence) / 2 * (1 + 1e-9)  # 1 - 0.9 is more than 0.1 by rounding
    ends = stats.binom.ppf(tail, counts, 0.5)
    return np.where(counts > 0, ends, 0).astype(np.int64)


def _quantile(ordered: Array, known: NDArray[Any], at: float) -> Array:
    """Linearly interpolated quantiles of the first ``known`` of sorted values; to inf from inf there is no way."""
    if not len(ordered):
        return np.full(ordered.shape[1:], np.nan)
    place = at * np.maximum(known - 1, 0)
    under = np.floor(place).astype(np.intp)
    over = np.ceil(place).astype(np.intp)
    below = np.take_along_axis(ordered, under[None], 0)[0]
    above = np.take_along_axis(ordered, over[None], 0)[0]
    with np.errstate(invalid="ignore"):
        between = below + (above - below) * (place - under)
    return np.where(below == above, below, between)
