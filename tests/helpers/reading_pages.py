"""Read an HTML page of a report: its elements, its text, and what a browser says of it."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
import unicodedata
from dataclasses import dataclass, field
from html.parser import HTMLParser

import pytest

HOSTILE = (
    "</title></style></script><script>alert(1)</script><img src=x onerror=alert(2)>\" onload='alert(3)' --> ]]>"
    "\x00\x1b]0;owned\x07\x1b[2J\x9b\u202eevil\u2066\u200b\u2028{{ 7 * 7 }}{% include 'x' %}&lt;b&gt;$x^{$"
)
"""Markup, an attribute, NUL, a terminal's escapes, directions, a template, an entity, a formula."""


def hidden_in(text, kept="\n"):
    """The characters that nobody can see."""
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return {repr(sign) for sign in text if sign not in kept and unicodedata.category(sign) in kinds}


VOID = frozenset(("br", "hr", "img", "input", "link", "meta"))
CLOSED = frozenset(("circle", "image", "line", "path", "polygon", "polyline", "rect", "use"))
"""Of SVG; they are written with a slash at their end."""


@dataclass
class Element:
    """An element of a page: its attributes, and all text inside of it."""

    tag: str
    attributes: dict[str, str]
    parents: tuple[str, ...]
    parts: list[str] = field(default_factory=list)

    @property
    def text(self):
        return " ".join("".join(self.parts).split())


class Page(HTMLParser):
    """The elements of a page in order; unbalanced elements, and one attribute twice, are refused."""

    def __init__(self, source):
        super().__init__(convert_charrefs=True)
        self.source, self.elements, self.comments = source, [], []
        self._open = []
        self.feed(source)
        self.close()
        assert self._open == [], "elements that are not closed"

    def handle_starttag(self, tag, attrs):
        assert len({name for name, _ in attrs}) == len(attrs), (tag, attrs)
        parents = tuple(element.tag for element in self._open)
        element = Element(tag, {name: value or "" for name, value in attrs}, parents)
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag, attrs):
        assert tag in CLOSED or "svg" in [element.tag for element in self._open], tag
        self.handle_starttag(tag, attrs)
        self._open.pop()

    def handle_endtag(self, tag):
        assert self._open, tag
        assert self._open[-1].tag == tag, (tag, self._open[-1].tag)
        self._open.pop()

    def handle_data(self, data):
        for element in self._open:
            element.parts.append(data)

    def handle_comment(self, data):
        self.comments.append(data)

    def all(self, tag, **attributes):
        """The elements of a tag, with these attributes (``class_`` for "class")."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [
            element for element in self.elements if element.tag == tag and wanted.items() <= element.attributes.items()
        ]

    def one(self, tag, **attributes):
        (element,) = self.all(tag, **attributes)
        return element

    def runs_only_its_own(self):
        """Whether the policy permits nothing from elsewhere, and every style sheet and script here by its hash."""
        policy = self.one("meta", http_equiv="Content-Security-Policy").attributes["content"]
        assert policy.startswith("default-src 'none'; ")
        assert not re.search(r"unsafe|https?:|\*", policy)
        for tag, directive in (("style", "style-src"), ("script", "script-src")):
            assert self.all(tag)
            for element in self.all(tag):
                content = "".join(element.parts)
                if element.attributes.get("type") == "application/json":
                    json.loads(content)  # data, which no browser runs
                    continue
                digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
                if not re.search(rf"{directive} [^;]*'sha256-{re.escape(digest)}'", policy):
                    return False
        for element in self.elements:
            assert "style" not in element.attributes, "the policy forbids style attributes"
            assert not [name for name in element.attributes if name.startswith("on")]
            for name in ("src", "href", "data", "action"):
                link = element.attributes.get(name, "#")
                assert link.startswith(("#", "data:image/png;base64,")), link
        return True

    @property
    def drawings(self):
        """The figures."""
        return [element for element in self.all("svg") if "drawing" in element.attributes.get("class", "").split()]

    @property
    def text(self):
        """What a reader sees, without style sheets and scripts."""
        (body,) = self.all("body")
        return body.text

    @property
    def shape(self):
        """The names of elements and attributes; what strangers wrote can change values only."""
        return {(element.tag, *sorted(element.attributes)) for element in self.elements}


def in_browser(path, folder, *, seconds=60):
    """Open a page in headless Chromium: its document afterwards, and the messages of its console."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("needs Chromium: the program chromium is not installed")
    options = (
        "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
        "--disable-component-update --disable-sync --enable-logging=stderr --v=0 --virtual-time-budget=2000"
    )
    done = subprocess.run(
        [chromium, *options.split(), f"--user-data-dir={folder}", "--dump-dom", path.resolve().as_uri()],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]
