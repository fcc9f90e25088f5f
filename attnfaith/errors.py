"""The errors of attnfaith. Each message says what was passed, what was expected, and what to do.

A message ends with the code of the error in square brackets, as in ``[unknown-column]``. `CODES` lists all codes;
``docs/errors.md`` has an entry for each.
"""

from typing import Any, ClassVar

from attnfaith.escaping import visible

CODES = {
    # arguments, models and data
    "invalid-argument": "An argument has a type or a value that is not accepted.",
    "unknown-name": "There is no ranking, test, option, table or preset of this name.",
    "model-not-found": "There is no classifier at this path.",
    "broken-model": "The files of the model are damaged, incomplete, or larger than they claim.",
    "custom-code": "The model brings code, or pickled objects, that attnfaith does not run.",
    "wrong-tokenizer": "The tokenizer does not belong to the model, or does not tell where tokens are in the text.",
    "missing-example": "The model has no configuration from which inputs could be made up.",
    "missing-padding-token": "Texts of several lengths need a padding token, and the model has none.",
    "ambiguous-decision": "It is not known what counts as another decision of this model.",
    "data-not-found": "There is no file, folder, data set or split of this name.",
    "unreadable-data": "The data cannot be parsed.",
    "unknown-column": "The data have no column of this name.",
    "not-a-text": "Something in the data or the call is not a text that the model can read.",
    "no-texts": "There is no text to work on.",
    "unknown-label": "A label in the data is not a class of the model.",
    "missing-labels": "Labels are needed, and there are none.",
    "mismatched-scores": "Scores or marks do not fit the text, or could be read in several ways.",
    "other-run": "The folder holds a run with another model, data or settings.",
    "unfinished-run": "The run is not complete.",
    "not-a-run": "The folder holds something else than a run of attnfaith.",
    "mismatched-parts": "The parts are not those of one run.",
    # models that cannot be cut or explained
    "unsupported-model": "The model cannot be cut faithfully.",
    "no-attention": "No attention was seen that the decision depends on.",
    "several-attentions": "Several attentions could be the final one.",
    "padding-changes-logits": "The model reads its padding, so a text has no result of its own.",
    "not-reproduced": "The captured model computes something else than the model itself.",
    "hidden-weights": "The attention kernel does not return its weights.",
    "failed-forward-pass": "The model's own forward pass failed.",
    "unsupported-ranking": "The ranking or test is not available for this model.",
    "cannot-hide": "This way of hiding tokens does not hide them from the model.",
    # numbers, memory, disks
    "numerical": "The model produced NaN or infinity, or a fast path no longer agrees with it.",
    "out-of-memory": "Memory ran out on a single text.",
    "storage": "Results cannot be written or read.",
    "damaged-run": "A file of a stored run is damaged, missing, or not of this run.",
    "other-version": "The run was written by another version of attnfaith.",
    "failed": "Something failed that attnfaith cannot repair; the message has the cause.",
}
"""The meaning of each code."""


class AttnFaithError(Exception):
    r"""Base of every error that attnfaith raises on purpose.

    Messages name labels, columns and paths, which may hold anything: control characters are escaped.

    Args:
        args: the message.
        code: one of `CODES`; by default that of the class.

    Attributes:
        code: the code, which `str` shows in square brackets at the end.

    Example:
        >>> print(AttnFaithError("There is no class 'good\x1b[2J'.", code="unknown-label"))
        There is no class 'good\x1b[2J'. [unknown-label]
    """

    default_code: ClassVar[str] = "failed"

    def __init__(self, *args: Any, code: str | None = None) -> None:
        super().__init__(*(visible(part, "\n\t") if isinstance(part, str) else part for part in args))
        self.code = self.default_code if code is None else code

    @property
    def message(self) -> str:
        """The message without the code."""
        return super().__str__()

    def __str__(self) -> str:
        """The message, then the code in square brackets."""
        return f"{self.message} [{self.code}]".lstrip()


class UnsupportedModelError(AttnFaithError):
    """The model cannot be cut faithfully; the message says what failed, and what would help."""

    default_code = "unsupported-model"


class InputError(AttnFaithError, ValueError):
    """An argument is invalid; raised where user input enters, before any work is done."""

    default_code = "invalid-argument"


class StorageError(AttnFaithError, OSError):
    """Results cannot be written or read: no space, no permission, damaged files."""

    default_code = "storage"


class NumericalError(AttnFaithError, ArithmeticError):
    """The model produced NaN or infinity, or a fast path no longer agrees with the model on this batch."""

    default_code = "numerical"


def message_of(error: BaseException) -> str:
    """The message of any error, without the code of one of ours: for messages that quote it."""
    return error.message if isinstance(error, AttnFaithError) else str(error)
