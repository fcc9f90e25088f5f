"""`section`: the part of the report in which single texts are read."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from attnfaith.report.reader.data import MOST_BYTES, reader_data

if TYPE_CHECKING:
    from attnfaith.evaluation.results import Results

_ESCAPES = {character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def section(results: Results, *, most_bytes: int = MOST_BYTES) -> Markup:
    """The section with the texts that a run has stored; for a run without them, a sentence that says what to do.

    Args:
        results: of the run.
        most_bytes: texts are shown until their data take so many bytes.

    Returns:
        A ``<section id="texts">`` with its own style, script and data; nothing is fetched.
    """
    data = reader_data(results, most_bytes=most_bytes)
    folder = files("attnfaith.report.reader")
    environment = Environment(
        loader=FileSystemLoader(str(folder)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = ((folder / name).read_text(encoding="utf-8") for name in ("reader.css", "reader.js"))
    return Markup(
        environment.get_template("reader.html").render(
            data=None if data is None else data["facts"],
            json=None if data is None else in_script(data),
            style=Markup(style),
            script=Markup(script),
        )
    )


def in_script(content: Any) -> Markup:
    r"""JSON that can stand in a ``<script>``: no character in it can end the element or begin another one.

    Example:
        >>> print(in_script({"text": "</script><!--"}))
        {"text":"\u003c/script\u003e\u003c!--"}
    """
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup("".join(map(_ESCAPES.get, text, text)))
