"""Which training a folder belongs to: its settings, model and data, so that no other training continues it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attnfaith.errors import InputError, StorageError, UnsupportedModelError
from attnfaith.parameter_names import parameter
from attnfaith.storage.atomic_files import put, storing

NAME = "training.json"
_WORDS = {
    "start": "the model or preset",
    "model": "the model",
    "train": "the data",
    "validation": "the validation data",
}


def read_training(folder: Path) -> dict[str, Any] | None:
    """The content of the file that describes a training; None if there is none."""
    try:
        content = json.loads((folder / NAME).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StorageError(
            f"{str(folder / NAME)!r} cannot be read: {error}. Remove the folder to train again.", code="damaged-run"
        ) from error
    if not isinstance(content, dict) or not isinstance(content.get("training"), dict):
        raise InputError(f"{str(folder / NAME)!r} does not describe a training. Give another folder.", code="not-a-run")
    return content


def write_training(folder: Path, content: Mapping[str, Any]) -> None:
    """Write the file atomically."""
    with storing(folder):
        put(folder / NAME, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


@contextmanager
def claimed(folder: Path, content: Mapping[str, Any]) -> Iterator[None]:
    """Make a folder and write which training it belongs to; arguments that are refused then leave nothing behind."""
    is_new = not folder.is_dir()
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_training(folder, content)
    try:
        yield
    except (InputError, UnsupportedModelError):
        if [entry.name for entry in folder.iterdir()] == [NAME]:
            (folder / NAME).unlink()
            if is_new:
                folder.rmdir()
        raise


def refuse_other(folder: Path, identity: Mapping[str, Any], *, argument: str) -> dict[str, Any] | None:
    """Refuse the folder of another training, naming the first difference; returns what describes this one.

    Args:
        folder: the folder.
        identity: what the weights of this training depend on, by the names of parameters.
        argument: the argument that names the folder.
    """
    stored = read_training(folder)
    if stored is None:
        return None
    mine, earlier = json.loads(json.dumps(identity)), stored["training"]
    for name in {**mine, **earlier}:
        if mine.get(name) != earlier.get(name):
            if name in _WORDS:
                difference = f"{_WORDS[name]} {'differ' if 'data' in _WORDS[name] else 'differs'}"
            else:
                difference = f"{parameter(name)} was {earlier.get(name)!r} there, and is {mine.get(name)!r} now"
            raise InputError(
                f"{str(folder)!r} holds another training: {difference}. Give another {parameter(argument)}, or the "
                "same arguments to continue it; or remove the folder.",
                code="other-run",
            )
    return stored
