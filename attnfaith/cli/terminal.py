"""Write to a terminal: escaped lines, and a usable terminal size."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from attnfaith.escaping import visible, visible_log

if TYPE_CHECKING:
    from attnfaith.evaluation.verdict import Verdict

NARROWEST, WIDEST = 20, 1000


def print_lines(text: str = "", *, err: bool = False) -> None:
    """Write escaped lines to standard output or error; names in them may hold any character."""
    typer.echo(visible(text, "\n"), err=err)


def print_verdict(verdict: Verdict) -> None:
    """Write a verdict to standard output, fitted to the width of a terminal."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        print_lines(str(verdict))
        return
    console.print(Text(visible(verdict.headline), "bold"))
    for sentence in verdict.parts.get("", ()):
        console.print(Text(visible(sentence)))
    for heading, table, sentences in verdict.sections:
        console.print()
        console.print(Text(visible(heading), "bold"))
        for sentence in sentences:
            console.print(Text(visible(sentence)))
        if table is not None:
            head, rows = table.fitted(console.width)
            console.print(Text("\n".join(head), "bold"))
            console.print(Text("\n".join(rows)))


@contextmanager
def usable_size() -> Iterator[None]:
    """Ignore invalid ``COLUMNS`` and ``LINES``: rich would write nothing in 0 columns."""
    removed = {name: os.environ[name] for name in ("COLUMNS", "LINES") if not _is_size(os.environ.get(name, "80"))}
    try:
        for name in removed:
            del os.environ[name]
        yield
    finally:
        os.environ.update(removed)


@contextmanager
def visible_logs() -> Iterator[None]:
    """Escape what libraries log: Transformers logs names of weights from model files."""
    original = logging.getLogRecordFactory()

    def record(*arguments: Any, **options: Any) -> logging.LogRecord:
        log_record = original(*arguments, **options)
        log_record.msg, log_record.args = visible_log(log_record.getMessage()), ()
        return log_record

    logging.setLogRecordFactory(record)
    try:
        yield
    finally:
        logging.setLogRecordFactory(original)


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6 and NARROWEST <= int(text) <= WIDEST
