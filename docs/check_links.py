"""Check the links of every Markdown page, without a network: files, anchors and the form of addresses.

Run by `make docs` (``python docs/check_links.py``) and by `tests/contracts/test_docs.py`.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"(?<!\\)\[(?:[^\]\[]|\[[^\]]*\])*\]\(\s*<?([^)\s>]*)>?(?:\s+\"[^\"]*\")?\s*\)")
_HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*$")


def pages() -> list[Path]:
    """The pages of the documentation and of the root of the repository."""
    written = [page for page in (ROOT / "docs").rglob("*.md") if "generated" not in page.relative_to(ROOT).parts]
    return sorted([*written, *ROOT.glob("*.md")])


def broken_links(page: Path) -> list[str]:
    """What is wrong with the links of a page: a line for each."""
    text = prose(page)
    return [
        f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, link.start()) + 1}: {link[1] or '(empty)'}: {problem}"
        for link in _LINK.finditer(text)
        if (problem := _problem(page, link[1]))
    ]


def prose(page: Path) -> str:
    """The text of a page with its lines; code, in fences or spans, is blank."""
    return re.sub(r"`[^`]*`", lambda span: re.sub(r"[^\n]", " ", span[0]), "\n".join(_outside_fences(page)))


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page: its headings as GitHub and myst name them."""
    seen: Counter[str] = Counter()
    names = set()
    for line in _outside_fences(page):
        if heading := _HEADING.match(line):
            name = slug(heading[1])
            names.add(f"{name}-{seen[name]}" if seen[name] else name)
            seen[name] += 1
    return frozenset(names)


def slug(heading: str) -> str:
    """The anchor of a heading.

    Example:
        >>> slug("What `cut` *means*, and why")
        'what-cut-means-and-why'
    """
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.replace("*", "").lower()).replace(" ", "-")


def _problem(page: Path, link: str) -> str | None:
    if re.match(r"[a-z]+:", link):
        parts = urlsplit(link)
        whole = parts.scheme in ("https", "http") and "." in parts.netloc
        return None if whole else "expected an address that begins with https:// and a host"
    name, _, anchor = link.partition("#")
    target = page if not name else (page.parent / name).resolve()
    if not name and not anchor:
        return "expected a file, an anchor or an address"
    if not target.exists():
        return "there is no such file"
    if anchor and target.suffix == ".md" and anchor not in anchors(target):
        return f"there is no heading {anchor!r} in {target.relative_to(ROOT)}"
    return None


def _outside_fences(page: Path) -> Iterator[str]:
    """The lines of a page; those inside fences are empty."""
    fence = ""
    for line in page.read_text(encoding="utf-8").splitlines():
        mark = re.match(r"\s*(`{3,}|~{3,}|:{3,})", line)
        if mark and not fence:
            fence = mark[1]
        elif mark and line.strip() == fence:
            fence = ""
        elif not fence:
            yield line
            continue
        yield ""


def main() -> int:
    """Print what is wrong; returns the exit code."""
    problems = [problem for page in pages() for problem in broken_links(page)]
    sys.stdout.write("".join(f"{problem}\n" for problem in problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
