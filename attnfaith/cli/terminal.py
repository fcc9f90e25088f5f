"""What is written to a terminal: lines that are safe to show, in a terminal of a size that can be."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from attnfaith.escaping import visible, visible_log

NARROWEST, WIDEST = 20, 1000


def print_lines(text: str = "", *, err: bool = False) -> None:
    """Write lines to standard output or error; names of labels, columns and files in them may hold anything."""
    typer.echo(visible(text, "\n"), err=err)


@contextmanager
def usable_size() -> Iterator[None]:
    """Without ``COLUMNS`` and ``LINES`` where they are no size of a terminal: rich would write nothing in 0 columns."""
    removed = {name: os.environ[name] for name in ("COLUMNS", "LINES") if not _is_size(os.environ.get(name, "80"))}
    try:
        for name in removed:
            del os.environ[name]
        yield
    finally:
        os.environ.update(removed)


@contextmanager
def visible_logs() -> Iterator[None]:
    """What libraries log, made safe to show: Transformers names the weights that it finds in the files of a model."""
    usual = logging.getLogRecordFactory()

    def record(*arguments: Any, **more: Any) -> logging.LogRecord:
        made = usual(*arguments, **more)
        made.msg, made.args = visible_log(made.getMessage()), ()
        return made

    logging.setLogRecordFactory(record)
    try:
        yield
    finally:
        logging.setLogRecordFactory(usual)


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6 and NARROWEST <= int(text) <= WIDEST
