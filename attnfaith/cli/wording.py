"""Error messages written for Python, as the command line says the same."""

from __future__ import annotations

import re

OPTIONS = {
    "input_column": "--text-column",
    "second_input_column": "--second-text-column",
    "label_column": "--label-column",
    "label_mapping": "--label-map",
    "output_dir": "--output",
    "special_tokens": "--special-tokens",
    "protect_deciding": "--protect-deciding",
    "max_length": "--max-length",
    "batch_size": "--batch-size",
    "n_resamples": "--resamples",
    "confidence_level": "--confidence",
    "score_columns": "--explanation",
    "rationale_column": "--rationale-column",
    "explanations": "--explanation",
    "paired": "--paired",
    "part": "--part",
    "rankings": "--rankings",
    "tests": "--tests",
    "level": "--level",
    "hide": "--hide",
    "target": "--target",
    "tolerance": "--tolerance",
    "decision": "--decision",
    "steps": "--steps",
    "seed": "--seed",
    "split": "--split",
    "subset": "--subset",
    "device": "--device",
    "method": "--method",
}
"""The option that stands for an argument."""

_WHOLE = {
    "label_mapping={a class's name: its label in the data}": '--label-map "a class\'s name=its label in the data"',
    "label_column=None": "--no-labels",
    "without part=": "without --part",
    "part=(1, n) to part=(n, n)": "--part 1/n to --part n/n",
    "paired=False": "--unpaired",
    "Read the file with pandas, and give the DataFrame.": "Save it as a csv with commas.",
    "Open others yourself and give a DataFrame or a datasets.Dataset.": "Save others as one of these.",
    "attnfaith.methods()": "The documentation of the rankings",
}
_VALUE = r"""(?:'[^']*'|"[^"]*"|\d[\w.]*|\w+)"""


def for_the_command_line(message: str) -> str:
    """A message with options in the place of Python's arguments.

    Example:
        >>> for_the_command_line("There is no column 'txt' (input_column). Use level='input', or label_column=None.")
        "There is no column 'txt' (--text-column). Use --level input, or --no-labels."
    """
    for python, shell in _WHOLE.items():
        message = message.replace(python, shell)
    for name, option in OPTIONS.items():
        assigned = rf"(?<![\w.-]){name}=({_VALUE})"
        message = re.sub(assigned, lambda found, option=option: f"{option} {_bare(found[1])}", message)  # type: ignore[misc]
        ours = "_" in name  # other names are also words
        message = re.sub(rf"(?<![\w.'/-]){name}={'?' if ours else ''}(?![\w'])", option, message)
        message = re.sub(rf"(?<=Expected ){name}(?= (?:to be|between|of) )", option, message)
    return message


def _bare(value: str) -> str:
    return value.strip("'\"") if " " not in value else value
