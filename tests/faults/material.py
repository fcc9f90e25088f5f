"""Models and data that the parts try things on; made once for each process, removed when it ends."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path
from typing import Any

from attnfaith.errors import AttnFaithError
from tests.helpers import commands

SHORT_RUN = ("--resamples", "20", "--rankings", "attention,gradient", "--level", "attention", "--quiet")
"""Options that make an evaluation quick."""


@functools.cache
def scratch() -> Path:
    """A folder for everything that the suite writes."""
    folder = Path(tempfile.mkdtemp(prefix="attnfaith-faults-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def fresh(name: str) -> Path:
    """A new empty folder."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=scratch()))


@functools.cache
def flan_folder() -> Path:
    """The smallest model, on disk."""
    return Path(commands.save_flan(scratch() / "flan"))


@functools.cache
def bert_folder() -> Path:
    """A tiny BERT, on disk."""
    return Path(commands.save_bert(scratch() / "bert"))


def loaded(folder: Path) -> tuple[Any, Any]:
    """A model in evaluation mode with its tokenizer, from disk."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    return AutoModelForSequenceClassification.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


@functools.cache
def reviews(count: int) -> str:
    """A csv of texts with labels."""
    return commands.reviews(scratch() / f"reviews-{count}.csv", count, longest=12)


def documented(error: BaseException) -> bool:
    """Is this an error that attnfaith raises on purpose?"""
    return isinstance(error, AttnFaithError)
