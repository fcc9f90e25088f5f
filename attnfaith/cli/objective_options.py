"""Parse training objectives with options from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attnfaith.cli.options import assigned
from attnfaith.cli.test_options import typed_option
from attnfaith.errors import InputError
from attnfaith.validation import did_you_mean

if TYPE_CHECKING:
    from attnfaith.training import Objective

OBJECTIVES = {
    "deceptive-attention": "DeceptiveAttention",
    "diversity": "Diversity",
    "fixed-representations": "FixedRepresentations",
    "masked-fine-tuning": "MaskedFineTuning",
    "word-prediction": "WordPrediction",
    "word-tying": "WordTying",
}
"""The classes of `attnfaith.training` by their names on the command line: all that leave the attention its own form."""


def parsed_objectives(names: Sequence[str] | None, options: Sequence[str] | None = None) -> list[Objective]:
    """Parse the values of ``--objective``.

    Args:
        names: keys of `OBJECTIVES`.
        options: ``objective.option=value`` each.

    Example:
        >>> parsed_objectives(["diversity"], ["diversity.weight=0.1"])
        [Diversity(weight=0.1)]
    """
    from attnfaith import training

    settings: dict[str, dict[str, Any]] = {name: {} for name in names or ()}
    for name in settings:
        if name not in OBJECTIVES:
            raise InputError(
                f"There is no objective {name!r}.{did_you_mean(name, OBJECTIVES)} Known: {', '.join(OBJECTIVES)}.",
                code="unknown-name",
            )
    kinds = {name: getattr(training, OBJECTIVES[name]) for name in settings}
    for name, value in assigned(options, "--option").items():
        objective, _, option = name.partition(".")
        if objective not in kinds:
            raise InputError(
                f"The option {name!r} is of no --objective that was given.{did_you_mean(objective, kinds)} Options are "
                "given as objective.option=value.",
                code="unknown-name",
            )
        settings[objective][option] = typed_option(value, name, kinds[objective], option, form="objective.option=value")
    return [kind(**settings[name]) for name, kind in kinds.items()]
