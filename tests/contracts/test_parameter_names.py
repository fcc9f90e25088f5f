"""Messages name a parameter by `attnfaith.parameter_names.parameter`, so that the command line shows its options."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import attnfaith
from attnfaith.option_names import OPTIONS

PACKAGE = Path(attnfaith.__file__).parent
ELSEWHERE = ("cli", "option_names.py")
"""`cli` writes options itself, `option_names.py` lists them."""

NAMES = [name for name in OPTIONS if "=" not in name]
LONG = [name for name in NAMES if "_" in name]  # the others are also words
NAMED = re.compile(
    rf"(?<![\w.'/-])(?:{'|'.join(NAMES)})="
    rf"|(?<![\w.'/-])(?:{'|'.join(LONG)})(?![\w']|\.\w)"
    rf"|Expected (?:{'|'.join(NAMES)}) (?:to|between|of)\b"
)


def plain_names(source: str) -> Iterator[tuple[int, str]]:
    """Strings with a space that name a parameter in plain text, by line; docstrings are for readers of Python."""
    tree = ast.parse(source)
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "parameter":
            skipped |= {id(argument) for argument in node.args}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        if " " in text.strip() and id(node) not in skipped and (NAMED.search(text) or "{parameter(" in text):
            yield node.lineno, text


def files() -> list[str]:
    paths = (path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
    return sorted(str(path) for path in paths if path.parts[0] not in ELSEWHERE)


def test_no_message_names_a_parameter_in_plain_text():
    found = [f"{file}:{line}: {text}" for file in files() for line, text in plain_names((PACKAGE / file).read_text())]
    assert not found, "Name these parameters by parameter(...):\n" + "\n".join(found)


def test_the_template_of_the_verdict_names_none_in_plain_text():
    template = (PACKAGE / "evaluation" / "verdict.txt.j2").read_text()
    assert "{{ parameter(" in template
    printed = re.sub(r"\{[{%#].*?[}%#]\}", "", template, flags=re.DOTALL)
    assert NAMED.findall(printed) == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("""raise InputError("Use level='input' here.")""", 1),
        ("""raise InputError(f"{what} needs a column: give label_column.")""", 1),
        ("""raise InputError(f"Expected hide to be one of {known}.")""", 1),
        ("""raise InputError("Use {parameter('level')} here.")""", 1),  # the f is missing
        (
            """raise InputError(f"Use {parameter('level', 'input')} or {parameter('label_mapping={a: b}')}.")""",
            0,
        ),
        ("""raise InputError("There is no level of that name.")""", 0),
        ("""'''A docstring may say level='input' plainly.'''""", 0),
    ],
)
def test_the_check_finds_names(source, count):
    assert len(list(plain_names(source))) == count
