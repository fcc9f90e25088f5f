r"""Text from models, data and files, made safe to show: what a terminal would obey, and no reader can see, is escaped.

A label name, a column, a path or a stored run may hold anything. Written to a terminal as it is, ``"\x1b]0;...\x07"``
renames the window, ``"\x1b[2J"`` wipes it, and ``"\u202e"`` reverses what follows. Everything that is shown goes
through `visible`, or `visible_json`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
_JOINERS = "\u200c\u200d"  # between letters of Persian or Hindi, and inside emoji, they are part of the writing
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")  # letters without ink


def visible(text: str, kept: str = "") -> str:
    r"""Text in which every invisible character is written as its escape, such as ``\x1b`` or ``\u202e``.

    Escaped are the control characters (C0, DEL, C1), line and paragraph separators, format characters (which change the
    direction of text, or have no width), letters without ink, halves of characters and noncharacters. A joiner stays
    where it joins two characters outside ASCII, as it does in Persian, in Hindi and in emoji.

    Args:
        text: anything.
        kept: characters to leave, such as a line break where several lines are shown.

    Example:
        >>> print(visible("bad\x1b[2J name\u202e"))
        bad\x1b[2J name\u202e
        >>> visible("a\nb", kept="\n") == "a\nb", visible("é\u200dé") == "é\u200dé"
        (True, True)
    """
    if text.isascii() and text.isprintable():
        return text
    shown = []
    for place, sign in enumerate(text):
        hidden = sign not in kept and _is_hidden(sign) and not (sign in _JOINERS and _joins(text, place))
        shown.append(_escaped(sign) if hidden else sign)
    return "".join(shown)


def visible_log(text: str) -> str:
    r"""A message of another library: as `visible`, but lines stay lines, and colours (SGR sequences) stay colours.

    Example:
        >>> visible_log("\x1b[1mkey\x1b[0m\n\x1b[2J") == "\x1b[1mkey\x1b[0m\n" + r"\x1b[2J"
        True
    """
    return "".join(part if _COLOUR.fullmatch(part) else visible(part, "\n\t") for part in _COLOUR.split(text))


def visible_json(content: Any) -> str:
    r"""JSON on one line, with every invisible character as an escape of JSON: a reader of the JSON loses nothing.

    Example:
        >>> print(visible_json({"text": "é\x9b\u202e"}))
        {"text": "é\u009b\u202e"}
    """
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    if text.isascii() and text.isprintable():
        return text
    return "".join(json.dumps(sign)[1:-1] if _is_hidden(sign) else sign for sign in text)


def _is_hidden(sign: str) -> bool:
    number = ord(sign)
    nothing = number & 0xFFFE == 0xFFFE or 0xFDD0 <= number <= 0xFDEF  # noncharacters; SVG and XML refuse some
    ignored = number == 0x2065 or 0xFFF0 <= number <= 0xFFF8 or 0xE0000 <= number <= 0xE00FF  # shown as nothing
    return nothing or ignored or sign in _BLANK or unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _joins(text: str, place: int) -> bool:
    around = text[place - 1 : place] + text[place + 1 : place + 2]
    return 0 < place < len(text) - 1 and not any(sign.isascii() or _is_hidden(sign) for sign in around)


def _escaped(sign: str) -> str:
    number = ord(sign)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
