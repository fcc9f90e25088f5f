"""Lists of explanations and of words that show themselves; in all else they are lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from attnfaith.attribution import rendering
from attnfaith.attribution.coloured_text import piece_lines

if TYPE_CHECKING:
    from typing import Self, SupportsIndex

    from attnfaith.attribution.explanation import Explanation, Piece

Item = TypeVar("Item")


class _ShownList(list[Item]):
    """A list with a view of its own; a slice of it is such a list, too."""

    @overload
    def __getitem__(self, index: SupportsIndex) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: Any) -> Any:
        result = super().__getitem__(index)
        return self._like(result) if isinstance(index, slice) else result

    def copy(self) -> Self:
        """A shallow copy."""
        return self._like(self)

    def _like(self, items: list[Item]) -> Self:
        result = type(self)(items)
        result.__dict__.update(self.__dict__)
        return result


class Explanations(_ShownList["Explanation"]):
    """The explanations of several texts: a list that a notebook shows as highlighted texts.

    Example:
        >>> Explanations() == [], isinstance(Explanations(), list)
        (True, True)
    """

    def __repr__(self) -> str:
        return rendering.lines(self)

    def _repr_html_(self) -> str:
        """HTML for notebooks: the first texts with their words (or a HAN's sentences) highlighted."""
        return rendering.list_html(self)


class Pieces(_ShownList["Piece"]):
    """The words or sentences of a text with their scores: a list that a notebook shows as a table.

    Attributes:
        explanation: where the scores come from.
    """

    explanation: Explanation | None = None

    @classmethod
    def of(cls, explanation: Explanation, pieces: list[Piece]) -> Pieces:
        """The pieces of an explanation."""
        result = cls(pieces)
        result.explanation = explanation
        return result

    def __repr__(self) -> str:
        return super().__repr__() if self.explanation is None else "\n".join(piece_lines(self.explanation, self))

    def _repr_html_(self) -> str | None:
        """HTML for notebooks: a table of the pieces with their scores, highlighted as in the text."""
        return None if self.explanation is None else rendering.pieces_html(self.explanation, self)
