"""HTML for notebooks: what everything that shows itself there has in common.

Colours come from the page, so that it can be read on white and on black.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from attnfaith.escaping import visible

BOX = "max-width:60em; padding:8px 2px; line-height:1.5; font-family:sans-serif"
MUTED = "font-size:85%; opacity:.8"
_CELL = "padding:2px 12px 2px 0; text-align:left; vertical-align:top; border-bottom:1px solid rgba(128,128,128,.3)"
_TABLE = "border-collapse:collapse; margin:6px 0; background:none"


def safe(text: str) -> str:
    r"""Text for HTML: markup escaped, invisible characters shown, except line breaks and tabs.

    Example:
        >>> print(safe("<b>a\x1bb</b>"))
        &lt;b&gt;a\x1bb&lt;/b&gt;
    """
    return escape(visible(text, "\n\r\t"))


def box(*parts: str) -> str:
    """Parts of HTML below each other."""
    return f'<div style="{BOX}">{"".join(parts)}</div>'


def muted(html: str) -> str:
    """A line in small type."""
    return f'<div style="{MUTED}">{html}</div>'


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table from heads and cells that are HTML.

    Example:
        >>> table(["word"], [["fine"], ["film"]]).count("<td")
        2
    """
    head = "".join(f'<th style="{_CELL}">{column}</th>' for column in columns)
    lines = ["".join(f'<td style="{_CELL}">{cell}</td>' for cell in row) for row in rows]
    body = "".join(f'<tr style="background:none">{line}</tr>' for line in lines)
    return (
        f'<div style="overflow-x:auto"><table style="{_TABLE}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
