"""Families by name, on every version of Transformers: an older one does not have all that the tests name."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import transformers
from packaging.version import Version
from torch import nn

from attnfaith.tiny_models import model_types

PINNED = Path(__file__).parents[2] / "constraints.txt"


NEWER_FAMILIES = frozenset(
    """axk1 axk2 cohere_compass_text esmc eurobert gte jina_embeddings_v3 minicpm3 mistral4 modernvbert nomic_bert
    qwen3_5 qwen3_5_text ultrabert ultravbert""".split()
)
"""Families that came after Transformers 5.0."""
BROKEN_IN_OLDER = frozenset({"zamba2"})
"""Families whose own models fail in Transformers 5.0: Zamba2 needs rotary embeddings that it does not make."""


def installed(names: str) -> list[str]:
    """The families of a list that the installed Transformers has: all of them, unless it is an older one."""
    known = set(model_types())
    families = names.split()
    missing = [name for name in families if name not in known]
    assert not missing or is_older(), f"Transformers has no {', '.join(missing)}"
    return [name for name in families if name in known]


def and_others(quick: Iterable[str], names: Iterable[str]) -> list[Any]:
    """The quick families, and every other of the names under the ``families`` marker: for `make test-families`."""
    quick = list(quick)
    return [*quick, *(pytest.param(name, marks=pytest.mark.families) for name in names if name not in quick)]


def need_interface(model: nn.Module) -> None:
    """Skip a test on the attention interface where an older Transformers computes the family's attention without it."""
    if is_older() and not hasattr(sys.modules[type(model).__module__], "ALL_ATTENTION_FUNCTIONS"):
        pytest.skip(f"in this Transformers, {type(model).__name__} does not use the attention interface")


def is_older() -> bool:
    """Whether Transformers is older than the version that everybody uses."""
    lines = PINNED.read_text(encoding="utf-8").splitlines()
    pinned = next(line.partition("==")[2] for line in lines if line.startswith("transformers=="))
    return Version(transformers.__version__) < Version(pinned)
