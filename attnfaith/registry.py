"""A dict with a decorator."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from attnfaith.errors import InputError
from attnfaith.validation import did_you_mean, short_repr

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Registry(dict[Key, Value]):
    """What exists under a name, filled by a decorator.

    Args:
        noun: what one entry is called in error messages ("method", "adapter", "test").
        listing: what lists the names, for messages, where there are too many to quote.

    Example:
        >>> shapes = Registry("shape")
        >>> @shapes.register("square")
        ... def square(side):
        ...     return side * side
        >>> shapes["square"](3)
        9
        >>> shapes["sqare"]
        Traceback (most recent call last):
        attnfaith.errors.InputError: There is no shape 'sqare'. Did you mean 'square'? Known: 'square'. [unknown-name]
    """

    def __init__(self, noun: str, listing: str = "") -> None:
        super().__init__()
        self.noun, self.listing = noun, listing

    @property
    def where(self) -> str:
        """A sentence that gives the names, or says what lists them."""
        if self.listing:
            return f"{self.listing} lists all {len(self)}."
        return f"Known: {', '.join(sorted(repr(name) for name in self)) or 'none'}."

    def register(self, key: Key) -> Callable[[Value], Value]:
        """Return a decorator that files its argument under ``key``; a key that is taken is refused."""

        def file(value: Value) -> Value:
            if key in self:
                raise InputError(f"The {self.noun} {key!r} is registered already. Choose another name.")
            self[key] = value
            return value

        return file

    def __missing__(self, key: Key) -> Value:
        raise InputError(
            f"There is no {self.noun} {short_repr(key)}.{did_you_mean(key, self)} {self.where}", code="unknown-name"
        )
