"""Markdown from texts and tables of any content."""

from __future__ import annotations

import re
from collections.abc import Sequence

from attnfaith.escaping import visible


def escape_markdown(text: str) -> str:
    r"""Escape the signs of Markdown in a text, and replace line breaks by spaces.

    Example:
        >>> print(escape_markdown("2 * 3\n_"))
        2 \* 3 \_
    """
    escaped = "".join("\\" + sign if sign in "\\`*_{}[]<>#|~$&" else sign for sign in visible(text, "\n\t"))
    return re.sub(r"\s+", " ", escaped)


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    r"""The lines of a table; a column of numbers is aligned to the right. The cells are not escaped.

    Example:
        >>> print(*markdown_table(["ranking", "texts"], [["LRP", "9"]]), sep="\n")
        | ranking | texts |
        | --- | ---: |
        | LRP | 9 |
    """
    numeric = [all(re.match(r"[\d–]", cells[column]) for cells in rows) for column in range(len(head))]
    rule = ["---:" if right else "---" for right in numeric]
    return ["| " + " | ".join(cells) + " |" for cells in (head, rule, *rows)]
