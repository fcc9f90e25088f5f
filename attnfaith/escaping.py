r"""Escaping invisible and control characters in text from models, data and files, so that it is safe to show.

A label name, a column, a path or a stored run may contain any character. Written to a terminal unchanged,
``"\x1b]0;...\x07"`` renames the window, ``"\x1b[2J"`` clears it, and ``"\u202e"`` reverses what follows. Everything
that is shown goes through `visible` or `visible_json`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
_JOINERS = "\u200c\u200d"  # part of the writing between letters of Persian or Hindi, and inside emoji
_BLANK = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
)  # letters shown as blanks


def visible(text: str, kept: str = "") -> str:
    r"""Escape every invisible character of a text, as ``\x1b`` or ``\u202e``.

    Escaped are control characters (C0, DEL, C1), line and paragraph separators, format characters (which change the
    direction of text, or have no width), blank letters, lone surrogates and noncharacters. A joiner stays where it
    joins two characters outside ASCII, as in Persian, in Hindi and in emoji.

    Args:
        text: any text.
        kept: characters to leave unchanged, such as a line break where several lines are shown.

    Example:
        >>> print(visible("bad\x1b[2J name\u202e"))
        bad\x1b[2J name\u202e
        >>> visible("a\nb", kept="\n") == "a\nb", visible("é\u200dé") == "é\u200dé"
        (True, True)
    """
    if text.isascii() and text.isprintable():
        return text
    characters = []
    for index, character in enumerate(text):
        joiner = character in _JOINERS and _joins(text, index)
        hidden = character not in kept and _is_hidden(character) and not joiner
        characters.append(_escaped(character) if hidden else character)
    return "".join(characters)


def visible_log(text: str) -> str:
    r"""Escape a message of another library as `visible` does, but keep line breaks, tabs and colours (SGR sequences).

    Example:
        >>> visible_log("\x1b[1mkey\x1b[0m\n\x1b[2J") == "\x1b[1mkey\x1b[0m\n" + r"\x1b[2J"
        True
    """
    return "".join(part if _COLOUR.fullmatch(part) else visible(part, "\n\t") for part in _COLOUR.split(text))


def visible_json(content: Any) -> str:
    r"""Write JSON on one line, with invisible characters as JSON escapes, so that a parser loses nothing.

    Example:
        >>> print(visible_json({"text": "é\x9b\u202e"}))
        {"text": "é\u009b\u202e"}
    """
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    if text.isascii() and text.isprintable():
        return text
    return "".join(json.dumps(character)[1:-1] if _is_hidden(character) else character for character in text)


def _is_hidden(character: str) -> bool:
    number = ord(character)
    noncharacter = number & 0xFFFE == 0xFFFE or 0xFDD0 <= number <= 0xFDEF  # SVG and XML refuse some of them
    ignored = number == 0x2065 or 0xFFF0 <= number <= 0xFFF8 or 0xE0000 <= number <= 0xE00FF  # shown as nothing
    hidden_category = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    return noncharacter or ignored or character in _BLANK or hidden_category


def _joins(text: str, index: int) -> bool:
    """Whether the joiner at an index has a visible character outside ASCII on both sides."""
    around = text[index - 1 : index] + text[index + 1 : index + 2]
    return 0 < index < len(text) - 1 and not any(near.isascii() or _is_hidden(near) for near in around)


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
