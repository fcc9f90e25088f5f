"""Messages written for Python, as the command line says the same."""

import inspect

import pytest
import typer

from attnfaith.cli.app import app
from attnfaith.cli.wording import OPTIONS, for_the_command_line
from attnfaith.evaluation.evaluator import Evaluator

COMMANDS = typer.main.get_command(app).commands
KNOWN = {name for command in COMMANDS.values() for one in command.params for name in one.opts}


@pytest.mark.parametrize("option", sorted(set(OPTIONS.values())))
def test_what_messages_speak_of_can_be_given(option):
    assert option in KNOWN


def test_what_python_takes_can_be_given_to_the_command():
    """Every argument of the Evaluator is an option of ``evaluate``, but for those that no shell can give."""
    arguments = {*inspect.signature(Evaluator).parameters, *inspect.signature(Evaluator.compute).parameters}
    arguments -= {"self", "model", "tokenizer", "data", "random_state"}
    renamed = {**OPTIONS, "output": "--explain", "quiet": "--quiet"}
    own = {name for one in COMMANDS["evaluate"].params for name in one.opts}
    assert {renamed.get(name, name) for name in arguments} <= own


@pytest.mark.parametrize(
    ("python", "shell"),
    [
        ("There is no column 'txt' (input_column).", "There is no column 'txt' (--text-column)."),
        ("Expected steps to be a whole number", "Expected --steps to be a whole number"),
        ("Expected confidence_level between 0 and 1", "Expected --confidence between 0 and 1"),
        ("Give another output_dir, or delete this one.", "Give another --output, or delete this one."),
        ("or go without labels by label_column=None.", "or go without labels by --no-labels."),
        ("Pass a smaller max_length.", "Pass a smaller --max-length."),
        (
            "The folder '/tmp/seed/max_length/steps' holds steps.",
            "The folder '/tmp/seed/max_length/steps' holds steps.",
        ),
        ("It was made with other arguments: seed is 0 there.", "It was made with other arguments: seed is 0 there."),
    ],
)
def test_arguments_become_options(python, shell):
    assert for_the_command_line(python) == shell
