"""Made-up manifests of a stored run."""

from __future__ import annotations

import functools
import json
import random
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.faults.fuzzing.values import any_text, plain_value
from tests.faults.parts import stored


def manifests() -> SearchStrategy[Any]:
    """A manifest of a stored run with entries replaced by anything that JSON can hold, or any bytes in its place."""
    value = st.recursive(
        plain_value,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(any_text, inner, max_size=3)),
        max_leaves=5,
    )
    edits = st.lists(st.tuples(st.integers(0, 2**16), value), min_size=1, max_size=3)
    return st.one_of(edits, edits, st.binary(max_size=80), st.integers(0, 2**16))


def reread(example: Any) -> None:
    """A run whose manifest was edited is refused, or says what it said."""
    mutate = functools.partial(_rewritten, example=example)
    problem = stored._tried(mutate, random.Random(0))
    assert not problem, problem


def _rewritten(folder: Path, *, example: Any) -> str:
    path = folder / "manifest.json"
    if isinstance(example, bytes):
        path.write_bytes(example)
    elif isinstance(example, int):
        content = path.read_bytes()
        path.write_bytes(content[: example % len(content)])
    else:
        manifest = json.loads(path.read_text())
        for number, value in example:
            entries = list(stored._entries(manifest))
            if not entries:
                break
            *inner, last = entries[number % len(entries)]
            functools.reduce(lambda part, name: part[name], inner, manifest)[last] = value  # type: ignore[index]
        path.write_text(json.dumps(manifest, indent=2) + "\n")
    return "manifest.json"
