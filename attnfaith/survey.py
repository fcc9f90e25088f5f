"""A survey of the text classifiers of the installed Transformers: which can be cut, how, and why others cannot."""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES

from attnfaith.adapters.cut import cut
from attnfaith.adapters.self_check import SelfCheck
from attnfaith.errors import AttnFaithError, InputError, message_of
from attnfaith.quiet import quiet_transformers
from attnfaith.tiny_models import model_types as known_types
from attnfaith.tiny_models import tiny_model
from attnfaith.validation import did_you_mean, short_repr


@dataclass(frozen=True)
class Family:
    """One model type of Transformers, tried on a tiny random model of it.

    Attributes:
        model_type: the name in the model's configuration.
        class_name: its class for text classification.
        status: "supported"; "refused", on purpose and with a reason; "not tried", because no tiny model could be made
            (a package may be missing); or "failed", by a bug in attnfaith.
        mechanism: how its attention is reached.
        path: the tail that is run.
        decides: which rows of the final attention decide.
        reason: why it is not supported.
        check: the results of the self-check.
    """

    model_type: str
    class_name: str
    status: Literal["supported", "refused", "not tried", "failed"]
    mechanism: str = ""
    path: str = ""
    decides: str = ""
    reason: str = ""
    check: SelfCheck | None = None

    @property
    def supported(self) -> bool:
        """Whether the family can be cut."""
        return self.status == "supported"

    @property
    def how(self) -> str:
        """How it is cut, or why it is not, on one line."""
        return f"tail: {self.path}; {self.decides}; {self.mechanism}" if self.supported else self.reason


def survey(model_types: Iterable[str] | None = None) -> Iterator[Family]:
    """Try to cut a tiny model of each family; yield a result for each, also for those that cannot be cut.

    Args:
        model_types: the families to try; by default all of the installed Transformers.

    Raises:
        InputError: Transformers has no text classifier of a model type. Raised before anything is tried.

    Example:
        >>> for family in survey(["bert", "fnet"]):
        ...     family.model_type, family.status, family.path, family.reason[:21]
        ('bert', 'supported', 'one position', '')
        ('fnet', 'refused', '', 'No attention was seen')
    """
    all_types = known_types()
    if isinstance(model_types, str):
        raise InputError(f"model_types is one string; expected several names, such as [{model_types!r}].")
    chosen = all_types if model_types is None else list(model_types)
    for name in chosen:
        if name not in all_types:
            raise InputError(
                f"Transformers {transformers.__version__} has no text classifier of the model type {short_repr(name)}."
                f"{did_you_mean(name, all_types)}",
                code="unknown-name",
            )
    return map(_try_family, chosen)


def _try_family(model_type: str) -> Family:
    names = model_type, MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES[model_type]
    with _quiet():
        try:
            model = tiny_model(model_type)
        except AttnFaithError as error:
            return Family(*names, "not tried", reason=_on_one_line(error))
        try:
            result = cut(model)
        except AttnFaithError as error:
            return Family(*names, "refused", reason=_on_one_line(error))
        except Exception as error:  # a bug of attnfaith must not hide the results of the other families
            reason = f"A mistake in attnfaith, please report it: {type(error).__name__}: {_on_one_line(error)}"
            return Family(*names, "failed", reason=reason)
    adapter = result.adapter
    return Family(*names, "supported", adapter.mechanism, adapter.tail, result.decides, check=result.check)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the warnings of families about kernels that are not installed and lengths that are rounded up."""
    with quiet_transformers(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _on_one_line(error: BaseException) -> str:
    return " ".join(message_of(error).split())


def summary(families: Sequence[Family]) -> str:
    """Summarise the families in one sentence: how many are supported, refused, not tried or failed.

    Example:
        >>> summary([Family("bert", "BertForSequenceClassification", "supported")])
        '1 of 1 model types of Transformers ... can be cut.'
    """
    count = Counter(family.status for family in families)
    other_counts = "".join(
        f"; {count[status]} {status}" for status in ("refused", "not tried", "failed") if count[status]
    )
    version = f"Transformers {transformers.__version__}"
    return f"{count['supported']} of {len(families)} model types of {version} can be cut{other_counts}."


def table_markdown(families: Sequence[Family]) -> str:
    """The families as Markdown: a table of those that can be cut, and one of the others.

    Example:
        >>> family = Family("fnet", "FNetForSequenceClassification", "refused", reason="No attention was seen.")
        >>> print(table_markdown([family]).splitlines()[-1])
        | `fnet` | `FNetForSequenceClassification` | refused | No attention was seen. |
    """
    supported = [
        (f"`{family.model_type}`", f"`{family.class_name}`", family.path, family.decides, family.mechanism)
        for family in families
        if family.supported
    ]
    other_rows = [
        (f"`{family.model_type}`", f"`{family.class_name}`", family.status, family.reason)
        for family in families
        if not family.supported
    ]
    parts = []
    if supported:
        parts.append(_table(("model type", "class", "tail", "decides", "mechanism"), supported))
    if other_rows:
        parts.append(_table(("model type", "class", "result", "why"), other_rows))
    return "\n\n".join(parts)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def table_json(families: Sequence[Family]) -> str:
    """The families as JSON: a list of objects with the fields of `Family`; a value that was not measured is null.

    Example:
        >>> family = Family("fnet", "FNetForSequenceClassification", "refused", reason="No attention was seen.")
        >>> json.loads(table_json([family]))[0]["status"]
        'refused'
    """

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(part) for name, part in value.items()}
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return json.dumps([plain(dataclasses.asdict(family)) for family in families], indent=2)
