"""Figures as SVG inside a page: no style attributes, no names that two figures share, no text from strangers."""

from __future__ import annotations

import io
import itertools
import re
import warnings
from collections.abc import Iterator
from html import escape
from typing import Any
from xml.etree import ElementTree

import matplotlib
from markupsafe import Markup
from matplotlib.figure import Figure

from attnfaith.escaping import visible
from attnfaith.plots.style import COLUMN

_SVG, _XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
_ELEMENTS = frozenset("circle clipPath defs g image line path polygon polyline rect svg use".split())
_ATTRIBUTES = frozenset(
    "clip-path clip-rule clipPathUnits cx cy d fill fill-opacity fill-rule height opacity points preserveAspectRatio r "
    "stroke stroke-dasharray stroke-dashoffset stroke-linecap stroke-linejoin stroke-miterlimit stroke-opacity "
    "stroke-width transform viewBox width x x1 x2 y y1 y2".split()
)
_COORDINATES = frozenset(("d", "points", "x", "y"))
_LONG = re.compile(r"-?\d+\.\d{3,}")
_REFERENCE = re.compile(r"url\(#(.+)\)")
_NOT_XML = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # matplotlib repeats each text in a comment
_PICTURE = "data:image/png;base64,"


def inline_svg(figure: Figure, name: str, message: str) -> Markup:
    """A figure as an SVG element.

    Letters are drawn as shapes, so the element holds no text but its message, and looks the same everywhere.

    Args:
        figure: any figure of matplotlib.
        name: unique in the page; the ids of the figure begin with it.
        message: what a reader who cannot see the figure is told.
    """
    # Inside a page, attributes for presentation replace styles, which its policy forbids.
    options: Any = {"svg.fonttype": "path", "svg.hashsalt": name, "svg.image_inline": True}
    with matplotlib.rc_context(options), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)  # the tables have these names
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(_NOT_XML.sub(b"", buffer.getvalue()))
    ids = _Ids(root, name)
    inside = "".join(part for child in root for part in _written(child, ids))
    told = escape(visible(message))
    box = escape(root.get("viewBox", ""))
    size = "column" if figure.get_figwidth() <= COLUMN else "page"
    return Markup(  # every part was escaped here, or comes from the lists above
        f'<svg class="drawing {size}" role="img" viewBox="{box}" aria-label="{told}" stroke-linejoin="round" '
        f'stroke-linecap="butt">{inside}</svg>'
    )


class _Ids:
    """The ids that something refers to, by the names that they get."""

    def __init__(self, root: ElementTree.Element, name: str) -> None:
        self._name, self._numbers = name, itertools.count()
        self._known: dict[str, str] = {}
        for element in root.iter():
            link = element.get(f"{_XLINK}href", "")
            if link.startswith("#"):
                self[link[1:]]
            if match := _REFERENCE.fullmatch(element.get("clip-path", "")):
                self[match[1]]

    def __getitem__(self, identity: str) -> str:
        if identity not in self._known:
            self._known[identity] = f"{self._name}-{next(self._numbers)}"
        return self._known[identity]

    def __contains__(self, identity: str | None) -> bool:
        return identity in self._known


def _written(element: ElementTree.Element, ids: _Ids) -> Iterator[str]:
    """The text of an element; comments, metadata, style sheets and everything else that is not listed are left out."""
    tag = str(element.tag).removeprefix(_SVG)
    if tag not in _ELEMENTS:
        return
    yield f"<{tag}"
    yield from _attributes(element, ids)
    if len(element):
        yield ">"
        for child in element:
            yield from _written(child, ids)
        yield f"</{tag}>"
    else:
        yield "/>"


def _attributes(element: ElementTree.Element, ids: _Ids) -> Iterator[str]:
    identity, link = element.get("id"), element.get(f"{_XLINK}href", "")
    if identity is not None and identity in ids:
        yield f' id="{escape(ids[identity])}"'
    if link.startswith("#"):
        yield f' href="#{escape(ids[link[1:]])}"'
    elif link.startswith(_PICTURE):
        yield f' href="{escape(link)}"'
    styles = dict(part.split(":", 1) for part in element.get("style", "").split(";") if ":" in part)
    for name, value in {**element.attrib, **{key.strip(): style.strip() for key, style in styles.items()}}.items():
        if name not in _ATTRIBUTES:
            continue
        if match := _REFERENCE.fullmatch(value):
            value = f"url(#{ids[match[1]]})"
        if name in _COORDINATES:
            value = _LONG.sub(lambda number: f"{float(number[0]):.2f}", " ".join(value.split()))
        yield f' {name}="{escape(value)}"'
