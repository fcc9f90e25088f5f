"""Fill in templates and make a page that loads and runs nothing but what lies in this package.

Texts, labels, columns, paths and names of rankings come from strangers. Every value that a template prints goes through
`attnfaith.escaping.visible` and is escaped for HTML; `markupsafe.Markup` alone is printed as it is. The policy of the
page (CSP) permits the style sheets and scripts of the package by their hashes, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from attnfaith.escaping import visible

FOLDER = Path(__file__).parent
TEMPLATES = FOLDER / "templates"


def render(template: str, values: Mapping[str, Any]) -> str:
    """Render a template of this package as a whole page.

    Args:
        template: the name of its file.
        values: by name.
    """
    fixed = {"policy": policy(), "css": asset("report.css"), "js": asset("report.js")}
    return environment().get_template(template).render({**values, **fixed})


@cache
def environment() -> Environment:
    """The templates of this package; what they print is made visible and escaped."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["unbroken"] = unbroken
    return made


def shown(value: Any) -> Any:
    r"""A value as a template prints it: invisible characters are escaped, also those of a terminal or of direction.

    Example:
        >>> print(shown("a\x1b[2J b\u202e"), shown(Markup("<b>")), shown(3))
        a\x1b[2J b\u202e <b> 3
    """
    return visible(value, "\n") if isinstance(value, str) and not isinstance(value, Markup) else value


def unbroken(sentence: str) -> str:
    r"""A sentence in which no line ends between a number and its "%".

    Example:
        >>> unbroken("On 92 % of them").split(" ")
        ['On', '92\xa0%', 'of', 'them']
    """
    return sentence.replace(" %", "\N{NO-BREAK SPACE}%")


def asset(name: str) -> Markup:
    """A style sheet or script of this package, to be printed inside its element as it is."""
    return Markup((FOLDER / name).read_text(encoding="utf-8"))  # a file of ours


@cache
def policy() -> str:
    """The content security policy: only the style sheets and scripts of this package, named by their hashes.

    Each may be printed as it is in its file, or with a line break before and after it.
    """
    styles, scripts = (
        " ".join(sorted(name for path in FOLDER.rglob(pattern) for name in _hashes(path.read_bytes())))
        for pattern in ("*.css", "*.js")
    )
    return (
        f"default-src 'none'; style-src {styles}; script-src {scripts}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def _hashes(content: bytes) -> Iterator[str]:
    for printed in (content, b"\n" + content + b"\n"):
        yield f"'sha256-{base64.b64encode(hashlib.sha256(printed).digest()).decode()}'"
