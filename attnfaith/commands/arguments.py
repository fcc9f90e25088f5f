"""What a user types, as the values that the library takes."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from attnfaith.commands.leaving import process_number
from attnfaith.errors import InputError


def one_of(*known: str) -> Callable[[str], str]:
    """A parser that takes one of some names, and says the nearest to any other.

    Example:
        >>> one_of("attention", "input")("input")
        'input'
    """

    def parse(given: str) -> str:
        if given not in known:
            raise typer.BadParameter(f"{given!r} is none of {', '.join(known)}.{nearest(given, known)}")
        return given

    return parse


def nearest(given: str, known: Iterable[str]) -> str:
    """A question after the names that look like one, or nothing.

    Example:
        >>> nearest("atention", ["attention", "input"])
        " Did you mean 'attention'?"
    """
    near = difflib.get_close_matches(given, list(known), n=3)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def listed(text: str) -> list[str]:
    """The entries of a list with commas.

    Example:
        >>> listed("erasure, single_weight")
        ['erasure', 'single_weight']
    """
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def lines_of(text: str) -> list[str]:
    r"""Lines that end with a line feed, after a carriage return or not; nothing else ends one.

    ``str.splitlines`` also splits where a page or a paragraph ends, which is inside a text.

    Example:
        >>> lines_of("one\f still one\r\ntwo\n")
        ['one\x0c still one', 'two']
    """
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.removesuffix("\r") for line in lines]


def rankings_of(text: str) -> str | list[str]:
    """Names of rankings, or "all".

    Example:
        >>> rankings_of("all"), rankings_of("attention, input/gradient")
        ('all', ['attention', 'input/gradient'])
    """
    names = listed(text)
    if not names:
        raise InputError('--rankings is empty. Give "all", or names with commas such as attention,gradient.')
    return "all" if set(names) == {"all"} else names


def assigned(pairs: Sequence[str] | None, option: str) -> dict[str, str]:
    """Names and values out of ``name=value``, each name once.

    Example:
        >>> assigned(["human=marks", "lime=weights"], "--explanation")
        {'human': 'marks', 'lime': 'weights'}
    """
    found: dict[str, str] = {}
    for pair in pairs or ():
        split = pair.rpartition if option == "--label-map" else pair.partition  # a label may hold the sign, or a column
        name, sign, value = (part.strip() for part in split("="))
        if not (sign and name and value):
            raise InputError(f"Expected {option} as name=value, got {pair!r}.")
        if name in found:
            raise InputError(f"{option} speaks of {name!r} twice. Leave one out.")
        found[name] = value
    return found


def label_mapping(pairs: Sequence[str] | None) -> dict[str, Any] | None:
    """What stands for which class, as the library takes it; numbers are numbers."""
    found = assigned(pairs, "--label-map")
    return {name: _number(value) for name, value in found.items()} or None


def class_of(given: str, model: Any) -> str | int:
    """A class by its name or, where nothing is called so, by its number.

    Example:
        >>> from types import SimpleNamespace as Space
        >>> stars = Space(config=Space(id2label={0: "1", 1: "2"}))
        >>> class_of("1", stars), class_of("0", stars), class_of("predicted", stars)
        ('1', 0, 'predicted')
    """
    names = getattr(getattr(model, "config", None), "id2label", None) or {}
    return given if given in map(str, names.values()) else _number(given)


def model_path(given: str) -> str:
    """The path of a model, or its name on the hub; what can only be a path and is none is refused.

    Example:
        >>> model_path("./no/such/folder")
        Traceback (most recent call last):
        attnfaith.errors.InputError: There is no folder './no/such/folder' to load a model from. ...
    """
    path = Path(given).expanduser()
    near = ""
    if not path.exists() and path.parent.is_dir():
        near = nearest(path.name, (entry.name for entry in path.parent.iterdir() if entry.is_dir()))
    if path.is_file():
        raise InputError(f"{given!r} is a file. Give the folder of a model that was saved with save_pretrained.")
    only_path = given.startswith((".", "/", "~")) or given.count("/") > 1 or not given.strip()
    if not path.exists() and (only_path or near):
        raise InputError(
            f"There is no folder {given!r} to load a model from.{near} Give the folder of a classifier that was saved "
            "with save_pretrained, or its name on the Hugging Face hub."
        )
    return str(path) if path.exists() else given


def device_of(given: str | None) -> str | None:
    """A device that is there."""
    if given is None:
        return None
    import torch

    try:
        torch.empty(0, device=given)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(f"The device {given!r} cannot be used: {str(error).partition(chr(10))[0]}") from error
    return given


@contextmanager
def bars(quiet: bool) -> Iterator[bool]:
    """Whether this process shows progress: on a terminal, the first process only; other libraries are told too."""
    from transformers.utils import logging

    shown = not quiet and sys.stderr.isatty() and process_number() == 0
    before = logging.is_progress_bar_enabled()
    try:
        if not shown:
            logging.disable_progress_bar()
        yield shown
    finally:
        if before and not shown:
            logging.enable_progress_bar()


def _number(text: str) -> Any:
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else text
