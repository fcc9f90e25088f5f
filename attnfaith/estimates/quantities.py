"""The one definition of every number: values of each text, and how an estimate and its interval are computed from them.

A test defines each of its numbers once, as a `Quantity`: an array with a row for each text, and how an estimate is made
of it. Summaries, comparisons of runs, and metric modules all read these definitions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from attnfaith.estimates.pivot import Array, Key
from attnfaith.functional.statistics import Estimate, Resamples, means_of, medians_of

NONE: Key = ("", "")
"""The key of estimates without a ranking."""
Own = TypeVar("Own", bound="Quantity")


class ResampledValue(NamedTuple):
    """An estimate, its value in each resample ``[resamples]``, and the number of texts behind it."""

    value: float
    draws: Array
    texts: int


@dataclass(frozen=True, eq=False)
class Quantity(ABC):
    """Values of ``n`` texts for each of ``F`` columns, and how each column is estimated.

    Attributes:
        name: the name of the estimates.
        values: ``[n, F]`` or ``[n]``; a NaN takes no part.
        keys: the ranking of each column, as (ranking_level, ranking).
        others: a second label of each column, such as the second ranking of a pair; "" for none.
        note: for all columns, or for each.
        not_reached: the note of an estimate that is inf.
        unknown: whether the true values are unknown and these only replace them; the estimate is then NaN.
        summarised: whether summaries list the estimates.
        compared: the columns that two runs are compared by; None for those without an ``other``.
        bound_of: the name of the estimate that this one bounds; a comparison of two runs that both have that estimate
            exactly skips this one.
        by_search: whether it is relative to the sets that a search found: runs with different searches cannot be
            compared by it.
    """

    name: str
    values: Array
    _: KW_ONLY
    keys: Sequence[Key] = (NONE,)
    others: Sequence[str] | None = None
    note: str | Sequence[str] = ""
    not_reached: str = ""
    unknown: bool = False
    summarised: bool = True
    compared: Sequence[int] | None = None
    bound_of: str = ""
    by_search: bool = False

    def __post_init__(self) -> None:
        values = np.asarray(self.values, dtype=np.float64)
        object.__setattr__(self, "values", values[:, None] if values.ndim == 1 else values)

    @property
    def texts(self) -> NDArray[np.int64]:
        """The number of texts behind each estimate, ``[F]``."""
        return (~np.isnan(self.values)).sum(0)

    @property
    def averaged(self) -> tuple[Array, ...]:
        """The arrays whose means `estimate` needs."""
        return ()

    @property
    def averaged_when_resampled(self) -> tuple[Array, ...]:
        """The arrays whose means `resampled` needs."""
        return self.averaged

    @abstractmethod
    def estimate(self, means: SharedMeans) -> Estimate:
        """The estimates and their intervals."""

    def resampled(self, means: SharedMeans) -> tuple[Array, Array]:
        """The estimates ``[F]``, and their values in each resample ``[resamples, F]``."""
        return means.of(self.values)

    def take(self: Own, rows: NDArray[Any]) -> Own:
        """Select some of the texts."""
        return replace(self, values=self.values[rows])

    def names(self) -> list[tuple[str, Key]]:
        """The identifiers of each column in a comparison of runs."""
        second_names = [""] * len(self.keys) if self.others is None else self.others
        names = [f"{self.name}:{other}" if other else self.name for other in second_names]
        return list(zip(names, map(tuple, self.keys), strict=True))

    def compared_only(self: Own) -> Own:
        """The columns that are compared between two runs."""
        if self.compared is not None:
            return self.only(self.compared)
        return self.only([index for index in range(len(self.keys)) if self.others is None or not self.others[index]])

    def only(self: Own, columns: Sequence[int]) -> Own:
        """Select some of the columns."""
        return replace(
            self,
            values=self.values[:, list(columns)],
            keys=[self.keys[index] for index in columns],
            others=None if self.others is None else [self.others[index] for index in columns],
            note=self.note if isinstance(self.note, str) else [self.note[index] for index in columns],
            compared=None if self.compared is None else range(len(columns)),
        )

    def notes(self, estimate: Estimate) -> list[str]:
        """The note of each estimate."""
        notes = [self.note] * len(estimate.value) if isinstance(self.note, str) else list(self.note)
        if not self.not_reached:
            return notes
        return [
            self.not_reached if np.isinf(value) else note for note, value in zip(notes, estimate.value, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class Share(Quantity):
    """Shares of the texts, from a 0 or 1 for each text, with Wilson's interval."""

    def estimate(self, means: SharedMeans) -> Estimate:
        """See `Resamples.share`."""
        return means.resamples.share(self.values)

    @property
    def averaged_when_resampled(self) -> tuple[Array, ...]:
        """The values: in a resample, a share is a mean."""
        return (self.values,)


@dataclass(frozen=True, eq=False)
class Median(Quantity):
    """Medians over texts, of values that may be inf, with an interval between two order statistics."""

    def estimate(self, means: SharedMeans) -> Estimate:
        """See `Resamples.median`."""
        return means.resamples.median(self.values)

    def resampled(self, means: SharedMeans) -> tuple[Array, Array]:
        """The medians of the texts ``[F]``, and of each resample ``[resamples, F]``."""
        return medians_of(self.values), means.resamples.median_draws(self.values)


@dataclass(frozen=True, eq=False)
class Mean(Quantity):
    """Means over texts, with a bootstrap interval."""

    @property
    def averaged(self) -> tuple[Array, ...]:
        """The values themselves."""
        return (self.values,)

    def estimate(self, means: SharedMeans) -> Estimate:
        """See `Resamples.mean`."""
        return means.resamples.estimate(*self.resampled(means), self.texts)


@dataclass(frozen=True, eq=False)
class FunctionOfMeans(Quantity):
    """Functions of means over texts, such as a ratio of two means, with a bootstrap interval.

    Attributes:
        values: ``[n, F]``, NaN where a text is not behind an estimate.
        columns: the arrays whose means the function takes, ``[n, F']`` each.
        function: from means ``[..., F']`` of each of the columns to ``[..., F]``; NaN where it is not defined.
        fewest: with fewer texts the estimate is NaN.
    """

    _: KW_ONLY
    columns: tuple[Array, ...]
    function: Callable[..., Array]
    fewest: int = 1

    @property
    def averaged(self) -> tuple[Array, ...]:
        """The columns."""
        return self.columns

    def estimate(self, means: SharedMeans) -> Estimate:
        """Apply the function to the means, and to the resampled means for the interval."""
        return means.resamples.estimate(*self.resampled(means), self.texts)

    def resampled(self, means: SharedMeans) -> tuple[Array, Array]:
        """Apply the function to the means of all texts, and to those of each resample."""
        values, draws = zip(*map(means.of, self.columns), strict=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            estimates, drawn = self.function(*values), self.function(*draws)
        return np.where(self.texts >= self.fewest, estimates, np.nan), drawn

    def only(self, columns: Sequence[int]) -> FunctionOfMeans:
        """Select some of the estimates."""
        chosen, function = list(columns), self.function
        return replace(super().only(columns), function=lambda *means: function(*means)[..., chosen])

    def take(self, rows: NDArray[Any]) -> FunctionOfMeans:
        """Select some of the texts."""
        return replace(self, values=self.values[rows], columns=tuple(column[rows] for column in self.columns))


@dataclass(frozen=True)
class Number:
    """A number that is not estimated, such as a count or an option.

    Attributes:
        name: the name of the number.
        value: the number.
        texts: the number of texts behind it.
        note: a note about it.
    """

    name: str
    value: float
    texts: int
    note: str = ""


class SharedMeans:
    """The means of several arrays in every resample, computed in one pass over the resamples.

    Args:
        resamples: the resamples of the texts.
        arrays: ``[n, F]`` each; an array that is passed several times is averaged once.
    """

    def __init__(self, resamples: Resamples, arrays: Iterable[Array]) -> None:
        self.resamples = resamples
        self._arrays = {id(array): array for array in arrays}
        self._means: dict[int, tuple[Array, Array]] = {}
        if self._arrays:
            stacked = np.hstack(list(self._arrays.values()))
            ends = np.cumsum([array.shape[1] for array in self._arrays.values()])[:-1]
            parts = (np.split(part, ends, axis=-1) for part in (means_of(stacked), resamples.draws(stacked)))
            self._means = dict(zip(self._arrays, zip(*parts, strict=True), strict=True))

    def of(self, array: Array) -> tuple[Array, Array]:
        """The means of one of the arrays ``[F]``, and in each resample ``[resamples, F]``."""
        return self._means[id(array)]


@dataclass(frozen=True, eq=False)
class Quantities:
    """All quantities of a test at one level.

    Attributes:
        text_ids: ``[n]``, ascending.
        quantities_for: a function from indices into ``text_ids`` to the quantities of these texts.
        level: the level of erasing; "" where a test has no levels.
        missing: why a text of the run can be absent from ``text_ids``.
        pairs: further rows for the summary, such as comparisons of two rankings: a function from the indices, the
            quantities and the means of the texts to arguments of `EstimateTable.add_each`.
    """

    text_ids: NDArray[np.int64]
    quantities_for: Callable[[NDArray[np.intp]], Sequence[Quantity | Number]]
    level: str = ""
    missing: str = "fewer than two items to erase"
    pairs: Callable[[NDArray[np.intp], Sequence[Quantity | Number], SharedMeans], Iterable[dict[str, Any]]] | None = (
        None
    )


def quantities_only(parts: Iterable[Quantity | Number]) -> list[Quantity]:
    """The entries that are quantities, not plain numbers."""
    return [part for part in parts if isinstance(part, Quantity)]


def shared_means(parts: Iterable[Quantity | Number], resamples: Resamples) -> SharedMeans:
    """Compute the resampled means that some quantities need."""
    return SharedMeans(resamples, (array for part in quantities_only(parts) for array in part.averaged))


def estimate_of(quantity: Quantity, means: SharedMeans) -> Estimate:
    """The estimates of a quantity; NaN where no text has a value.

    Example:
        >>> quantity = Mean("score", np.array([0.5, np.nan, 1.0]))
        >>> estimate_of(quantity, shared_means([quantity], Resamples(3, resamples=20))).value
        array([0.75])
    """
    estimate = quantity.estimate(means)
    if not quantity.unknown:
        return estimate
    undefined = np.full(len(estimate.texts), np.nan)
    return Estimate(undefined, undefined, undefined, estimate.texts)


def ratio(name: str, numerator: Array, denominator: Array, **options: Any) -> FunctionOfMeans:
    """The ratio of two means over the texts where both values are defined; NaN if the divisor is 0.

    Args:
        name: the name of the estimate.
        numerator: the values of the dividend, ``[n, F]`` or ``[n]``.
        denominator: the values of the divisor, of the same shape.
        **options: further attributes of the `Quantity`, such as ``keys`` or ``note``.
    """
    missing = np.isnan(numerator + denominator)
    columns = tuple(Mean(name, np.where(missing, np.nan, values)).values for values in (numerator, denominator))

    def divided(means: Array, divisors: Array) -> Array:
        return means / np.where(divisors == 0, np.nan, divisors)

    return FunctionOfMeans(name, columns[1], columns=columns, function=divided, **options)


def bounded(low: Quantity, high: Quantity, *, exact: bool, note: str) -> list[Quantity]:
    """A quantity known between bounds, under its name and as ``_low`` and ``_high``.

    If both bounds are the exact value, a summary has this one value under the plain name. Otherwise the value is NaN,
    and the summary has ``_low`` and ``_high``. Two runs that both have exact values are compared by these.

    Args:
        low: the lower bound, under the name of the quantity.
        high: the upper bound.
        exact: whether the two are equal in all texts.
        note: the note of values that are not known exactly.
    """
    main = high if exact else replace(high, unknown=True, note=note, not_reached="", compared=())
    ends = {"low": low, "high": high}
    return [
        main,
        *(
            replace(end, name=f"{end.name}_{suffix}", summarised=not exact, bound_of=end.name)
            for suffix, end in ends.items()
        ),
    ]
