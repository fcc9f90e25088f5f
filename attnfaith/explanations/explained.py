"""`Explained`: explanations of another library, one for each row of the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnfaith.errors import InputError
from attnfaith.text.encoded import EncodedText
from attnfaith.validation import short_repr

Array = NDArray[np.float64]
Convert = Callable[[Any, EncodedText], Sequence[float]]
"""From what a library says of one text, and the text as the model reads it, to scores; raises `InputError`."""


class Explained:
    """Explanations of another library, for ``Evaluator.compute(explanations=...)``; made by the functions ``from_...``.

    Args:
        source: an explanation for each row of the data, in their order; or a function from a text (of a pair, from
            both texts) to its explanation, which is called when the text is reached.
        convert: from one explanation and its text to scores.
        library: its name, for messages.
    """

    def __init__(self, source: Any, convert: Convert, library: str) -> None:
        self.called = callable(source) and not hasattr(source, "__getitem__")
        if not self.called and (isinstance(source, str | dict) or not hasattr(source, "__len__")):
            raise InputError(
                f"Expected an explanation of {library} for each row of the data, or a function from a text to its "
                f"explanation; got {short_repr(source)}."
            )
        self._source, self._convert, self.library = source, convert, library

    def __len__(self) -> int:
        """How many explanations there are; an explanation that a function makes does not count."""
        return 0 if self.called else len(self._source)

    def check(self, rows: int | None) -> None:
        """Refuse another number of explanations than rows of the data (None if that is not known)."""
        if not self.called and rows is not None and len(self) != rows:
            raise InputError(
                f"There are {len(self)} explanations of {self.library} for {rows} rows of the data. Give one for each "
                "row, in the order of the data."
            )

    def scores(self, row: int, text: EncodedText) -> Sequence[float]:
        """The scores of one text, as `attnfaith.text.annotations.align_scores` reads them.

        Args:
            row: its number in the data.
            text: as the model reads it.
        """
        try:
            if self.called:
                explanation = self._source(text.text) if text.pair is None else self._source(text.text, text.pair)
                return self._convert(explanation, text)
            if row >= len(self):
                raise InputError(f"there are only {len(self)} explanations. Give one for each row of the data.")
            return self._convert(self._source[row], text)
        except InputError as error:
            raise InputError(f"Row {row}, explanation of {self.library}: {error}") from error


def array(value: Any, what: str) -> Array:
    """Numbers of any kind (tensor, array, list) as an array of double precision."""
    value = value.detach().cpu().double().numpy() if hasattr(value, "detach") else value
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"expected {what} to be numbers, got {short_repr(value)}.") from error


def attribute(explanation: Any, *names: str, maker: str) -> list[Any]:
    """Some attributes of an explanation; an object of another kind is refused.

    Args:
        explanation: any object.
        names: of the attributes.
        maker: what makes such an object, for the message.
    """
    missing = [name for name in names if not hasattr(explanation, name)]
    if missing:
        raise InputError(
            f"expected what {maker} returns, with {' and '.join(names)}; got {short_repr(explanation)} of type "
            f"{type(explanation).__name__}, without {', '.join(missing)}."
        )
    return [getattr(explanation, name) for name in names]


def same_text(explained: Any, text: EncodedText) -> None:
    """Refuse an explanation of another text."""
    if explained != text.text:
        raise InputError(
            f"it is of another text, {short_repr(explained)}; the row has {short_repr(text.text)}. Explanations must "
            "be in the order of the data."
        )
