"""Estimates with intervals: a bootstrap over texts, Wilson and order-statistic intervals, sign tests, survival curves.

`Resamples` is the bootstrap. Every estimate of a run uses the same resamples: only then is the difference of two
estimates a paired comparison, with an interval much narrower than that of two independent ones. Resamples are never
stored. They are drawn again, in the same batches, whenever they are needed, so two calls with the same size and seed
see the same resamples; nothing else may draw from that generator in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats  # type: ignore[import-untyped, unused-ignore]

Array = NDArray[np.float64]
Seed = int | tuple[int, ...]

_CELLS = 2**21  # counts held at once: 16 MB of float64, and some more while they are drawn
_WINDOW = 4.0  # a resample's median is searched first within this many standard deviations of the middle
_WIDTH = 8  # columns that are multiplied at once


class Estimate(NamedTuple):
    """``F`` estimates, the ends of their intervals, and the number of texts that each is made from."""

    value: Array
    low: Array
    high: Array
    texts: NDArray[np.int64]

    def take(self, index: Any) -> Estimate:
        """Select some of the estimates."""
        return Estimate(self.value[index], self.low[index], self.high[index], self.texts[index])


class Resamples:
    """One set of bootstrap resamples of texts, shared by all estimates, so that estimates can be compared paired.

    A resample is stored as counts: how often each text was drawn. The draws depend on the seed and the sizes alone, so
    every method sees the same resamples. They are generated in batches, so memory does not grow with
    ``resamples x size``. Intervals are percentile intervals.

    Args:
        size: the number of texts n.
        resamples: the number of resamples.
        confidence: the confidence level of the intervals.
        seed: the seed of the draws. Use another seed for resamples of other texts.

    Example:
        >>> estimate = Resamples(4, seed=1).mean([[0.0, 1.0], [0.0, 2.0], [1.0, 3.0], [1.0, np.nan]])
        >>> estimate.value, estimate.texts
        (array([0.5, 2. ]), array([4, 3]))
        >>> float(estimate.low[0]), float(estimate.high[0])
        (0.0, 1.0)
    """

    def __init__(self, size: int, *, resamples: int = 9999, confidence: float = 0.95, seed: Seed = 0) -> None:
        self.size, self.resamples, self.confidence, self.seed = size, resamples, confidence, seed

    def counts(self) -> Iterator[tuple[slice, Array]]:
        """Yield the resamples in batches: their slice, and how often each drew each text, ``[batch, n]``.

        The generator is made here and not in the constructor. If it were kept, each call would continue its stream and
        see other resamples than the call before, and no two estimates would be paired.
        """
        generator = np.random.Generator(np.random.SFC64(self.seed))
        step = max(1, _CELLS // max(self.size, 1))
        for start in range(0, self.resamples if self.size else 0, step):
            rows = min(step, self.resamples - start)
            drawn = generator.integers(self.size, size=(rows, self.size))
            drawn += np.arange(rows)[:, None] * self.size  # one bincount counts all rows: each has its own range
            counted = np.bincount(drawn.ravel(), minlength=rows * self.size)
            yield slice(start, start + rows), counted.reshape(rows, self.size).astype(np.float64)

    def draws(self, values: ArrayLike) -> Array:
        """The mean of each column in each resample: ``[n, F]``, finite or NaN, to ``[resamples, F]``."""
        centred, base, defined = _centre(self._matrix(values))
        masks, which = _distinct(defined)
        means = np.full((self.resamples, len(base)), np.nan)
        with np.errstate(invalid="ignore"):  # a resample that drew no text with a defined value has no mean
            for rows, counts in self.counts():
                means[rows] = _product(counts, centred) / (counts @ masks)[:, which] + base
        return means

    def median_draws(self, values: ArrayLike) -> Array:
        """The median of each column in each resample: ``[n, F]``, inf for "never", to ``[resamples, F]``.

        Cumulating the counts of all n texts for every resample would be slow. The median of nearly every resample lies
        close to the median of the data, so only a window of texts around it is cumulated; the few resamples whose
        median lies outside are then computed from all texts.
        """
        columns = self._matrix(values)
        defined = ~np.isnan(columns)
        masks, which = _distinct(defined)
        below, orders, windows = np.zeros(columns.shape), [], []
        for column in range(columns.shape[1]):
            number = int(defined[:, column].sum())
            reach = _WINDOW * np.sqrt(number) / 2 + 2
            orders.append(np.argsort(columns[:, column], kind="stable")[:number])
            windows.append(slice(max(0, int(number / 2 - reach)), int(number / 2 + reach)))
            below[orders[column][: windows[column].start], column] = 1.0
        result = np.full((self.resamples, columns.shape[1]), np.nan)
        for rows, counts in self.counts():
            halves, before = (counts @ masks)[:, which] / 2, counts @ below
            for column, (order, window) in enumerate(zip(orders, windows, strict=True)):
                if not len(order):
                    continue
                ranked, half, start = columns[order, column], halves[:, column], before[:, column]
                summed = start[:, None] + counts[:, order[window]].cumsum(1)
                medians = _middle(ranked[window], summed, half)
                # ">=" on the left: where exactly half lies below the window, the lower middle value is outside it
                missed = ((start >= half) & (window.start > 0)) | (summed[:, -1] <= half)
                if missed.any():
                    medians[missed] = _middle(ranked, counts[missed][:, order].cumsum(1), half[missed])
                result[rows, column] = np.where(half > 0, medians, np.nan)
        return result

    def interval(self, draws: Array) -> tuple[Array, Array]:
        """The ends of percentile intervals from resampled estimates: ``[resamples, ...]`` to two of ``[...]``.

        Resamples in which an estimate is NaN are left out.
        """
        ordered = np.sort(draws, axis=0)  # NaN last
        defined = (~np.isnan(draws)).sum(0)
        tail = (1 - self.confidence) / 2
        return _quantile(ordered, defined, tail), _quantile(ordered, defined, 1 - tail)

    def mean(self, values: ArrayLike) -> Estimate:
        """Estimate means over texts, ``[n, F]``; NaN is left out."""
        columns = self._matrix(values)
        return self.estimate(means_of(columns), self.draws(columns), (~np.isnan(columns)).sum(0))

    def median(self, values: ArrayLike) -> Estimate:
        """Estimate medians over texts, ``[n, F]``, with inf for texts that never get there; NaN is left out.

        The median is the mean of the two middle values; where only the lower one is finite, it is the lower one. So the
        median is finite as soon as half of the texts get there, and inf ("not reached") where fewer do.

        The interval is that of order statistics: both ends are values of texts, and their ranks come from a binomial
        distribution with p = 1/2 (the number of texts below the median). It covers the median of any distribution at
        least as often as ``confidence`` says, also with ties and inf; a bootstrap covers it too rarely with a few dozen
        texts. With too few texts (up to 5 at a confidence of 0.95) no such interval exists: NaN.

        Example:
            >>> Resamples(4).median([0.1, 0.3, np.inf, np.inf]).value, Resamples(3).median([0.1, np.inf, np.inf]).value
            (array([0.3]), array([inf]))
        """
        columns = self._matrix(values)
        ordered, count = np.sort(columns, axis=0), (~np.isnan(columns)).sum(0)  # NaN last
        ends = _binomial_ends(count, self.confidence)
        enough = ends > 0
        index = np.where(enough, [ends - 1, count - ends], 0)
        low, high = np.take_along_axis(ordered, index, 0) if len(ordered) else np.full(index.shape, np.nan)
        return Estimate(medians_of(columns), np.where(enough, low, np.nan), np.where(enough, high, np.nan), count)

    def share(self, values: ArrayLike) -> Estimate:
        """Estimate shares of texts, ``[n, F]`` of 0, 1 and NaN, which is left out.

        The interval is Wilson's. A bootstrap would give an interval of width 0 for a share of 0 or 1.
        """
        columns = self._matrix(values)
        return wilson(np.nansum(columns, axis=0), (~np.isnan(columns)).sum(0), self.confidence)

    def estimate(self, value: Array, draws: Array, count: NDArray[Any]) -> Estimate:
        """Add percentile intervals from resampled values ``[resamples, F]``; NaN where an estimate is from one text."""
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
    """Means of the columns ``[n, F]``, NaN left out; the mean of a column of NaN is NaN.

    Example:
        >>> means_of(np.array([[0.1, 1.0], [0.1, np.nan], [0.1, 2.0]]))
        array([0.1, 1.5])
    """
    centred, base, defined = _centre(values)
    with np.errstate(invalid="ignore"):
        return np.ascontiguousarray(centred.T).sum(1) / defined.sum(0) + base


def medians_of(values: Array) -> Array:
    """Medians of the columns ``[n, F]``, as `Resamples.median` defines them."""
    ranked, medians = np.sort(values, axis=0), np.full(values.shape[1], np.nan)
    for column, number in enumerate((~np.isnan(values)).sum(0)):
        if number:
            counted = np.arange(1.0, number + 1)
            medians[column] = _middle(ranked[:number, column], counted[None], np.array([number / 2]))[0]
    return medians


def wilson(hits: ArrayLike, counts: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Shares ``hits / counts`` with Wilson's score interval; NaN where the count is 0.

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
    low = np.where(hit == 0, value, centre - reach)  # exactly 0 and 1: rounding would leave 1e-17, or more than 1
    high = np.where(hit == count, value, centre + reach)
    return Estimate(value, low, high, count.astype(np.int64))


def sign_test(wins: ArrayLike, losses: ArrayLike) -> Array:
    """Two-sided p values of sign tests, ties left out; NaN without a win or a loss.

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


def binomial_excess(hits: ArrayLike, counts: ArrayLike, chance: ArrayLike) -> Array:
    """One-sided exact binomial p values: how probable at least so many hits are where each has the probability chance.

    Example:
        >>> binomial_excess([5, 0], [5, 5], 0.5).round(4)
        array([0.0312, 1.    ])
    """
    return np.asarray(stats.binom.sf(np.asarray(hits) - 1, counts, chance), dtype=np.float64)


def holm(p_values: ArrayLike) -> Array:
    """Adjust p values for multiple testing by Holm's step-down method; NaN stays NaN and is not counted.

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


def benjamini_hochberg(p_values: ArrayLike) -> Array:
    """Adjust p values by Benjamini and Hochberg's step-up method; NaN stays NaN and is not counted.

    Of the tests with an adjusted p value of at most 0.05, at most 5 % are expected to be false discoveries.

    Example:
        >>> benjamini_hochberg([0.01, 0.04, 0.03, np.nan])
        array([0.03, 0.04, 0.04,  nan])
    """
    raw = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(raw.shape, np.nan)
    order = np.argsort(raw, kind="stable")[: (~np.isnan(raw)).sum()]
    stepped = raw[order] * len(order) / np.arange(1, len(order) + 1)
    adjusted[order] = np.minimum(np.minimum.accumulate(stepped[::-1])[::-1], 1.0)
    return adjusted


def survival(fractions: ArrayLike, grid: ArrayLike) -> Array:
    """The share of texts whose decision has not flipped at each removed fraction: ``[n, F]``, ``[T]`` to ``[T, F]``.

    The fraction of a text is the one at which its decision flips, inclusive; inf if it never flips, NaN to leave the
    text out.

    Example:
        >>> survival([0.5, 0.75, np.inf, np.inf], [0.0, 0.5, 1.0]).ravel()
        array([1.  , 0.75, 0.5 ])
    """
    columns = np.asarray(fractions, dtype=np.float64)
    columns = columns[:, None] if columns.ndim == 1 else columns
    points = np.asarray(grid, dtype=np.float64) + 1e-9  # 29 of 100 is at 0.29, whatever the two round to
    shares = np.full((len(points), columns.shape[1]), np.nan)
    for column, number in enumerate((~np.isnan(columns)).sum(0)):
        if number:
            flipped = np.searchsorted(np.sort(columns[:, column])[:number], points, side="right")
            shares[:, column] = 1 - flipped / number
    return shares


def _centre(values: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Columns minus their first defined value (NaN becomes 0), that value, and where values are defined.

    A column of equal values is then a column of zeros, and its mean is exactly its value in every resample. Summing the
    values themselves would leave rounding errors, and an interval of width 1e-17 where there is no spread at all.
    """
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
    product = np.empty((len(counts), columns.shape[1]))
    for start in range(0, columns.shape[1], _WIDTH):
        part = columns[:, start : start + _WIDTH]
        width = part.shape[1]
        padded = np.zeros((len(part), _WIDTH))
        padded[:, :width] = part
        product[:, start : start + width] = (counts @ padded)[:, :width]
    return product


def _distinct(defined: NDArray[np.bool_]) -> tuple[Array, NDArray[np.intp]]:
    """The distinct columns among masks, ``[n, M]``, and the index of each column among them.

    Most columns are defined for the same texts, so one matrix product for each distinct mask is enough.
    """
    numbers: dict[bytes, int] = {}
    which = [numbers.setdefault(np.packbits(column).tobytes(), len(numbers)) for column in defined.T]
    first = [which.index(number) for number in range(len(numbers))]
    return defined[:, first].astype(np.float64), np.array(which, dtype=np.intp)


def _middle(ranked: Array, summed: Array, half: Array) -> Array:
    """Medians of ascending values ``[w]``, from cumulative counts ``[rows, w]`` and half the totals ``[rows]``."""
    lower = ranked[(summed >= half[:, None]).argmax(1)]
    upper = ranked[(summed > half[:, None]).argmax(1)]
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(upper) & (lower != upper), (lower + upper) / 2, lower)


def _binomial_ends(counts: NDArray[np.int64], confidence: float) -> NDArray[np.int64]:
    """The largest rank k whose value, counted from either end, is far enough from the median: ``[F]`` to ``[F]``.

    The chance that fewer than k of n values are below the median must not exceed ``(1 - confidence) / 2``.
    """
    tail = (1 - confidence) / 2 * (1 + 1e-9)  # 1 - 0.9 is more than 0.1 by rounding
    ends = stats.binom.ppf(tail, counts, 0.5)
    return np.where(counts > 0, ends, 0).astype(np.int64)


def _quantile(ordered: Array, count: NDArray[Any], level: float) -> Array:
    """Linearly interpolated quantiles of the first ``count`` sorted values."""
    if not len(ordered):
        return np.full(ordered.shape[1:], np.nan)
    position = level * np.maximum(count - 1, 0)
    lower = np.floor(position).astype(np.intp)
    upper = np.ceil(position).astype(np.intp)
    below = np.take_along_axis(ordered, lower[None], 0)[0]
    above = np.take_along_axis(ordered, upper[None], 0)[0]
    with np.errstate(invalid="ignore"):
        between = below + (above - below) * (position - lower)
    return np.where(below == above, below, between)  # between inf and inf the quantile is inf: inf - inf is NaN
