"""Check the words of every Markdown page against an English dictionary and `docs/words.txt`, without a network.

Run by `make docs` (``python docs/check_spelling.py``), beside codespell, which also reads the code. Names, and whatever
is written as code, are left out: only words in lower case are looked up.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from check_links import ROOT, pages, prose
from spellchecker import SpellChecker

_NO_PROSE = re.compile(r"\$\$.*?\$\$|\$[^$\n]*\$|\]\([^)]*\)|<[^>]*>|https?://\S+|\{\w+:?\w*\}")


def unknown_words(page: Path, dictionary: SpellChecker) -> Iterator[str]:
    """A line for each word that is in no list."""
    for number, line in enumerate(_NO_PROSE.sub(" ", prose(page)).splitlines(), 1):
        for word in re.findall(r"(?<![\w-])[a-z]{2,}(?:'[a-z]+)?(?![\w])", line):
            if word not in dictionary and word.removesuffix("'s") not in dictionary:
                yield f"{page.relative_to(ROOT)}:{number}: {word}"


def main() -> int:
    """Print the unknown words; returns the exit code."""
    dictionary = SpellChecker(language="en")
    dictionary.word_frequency.load_words((ROOT / "docs" / "words.txt").read_text(encoding="utf-8").split())
    found = [line for page in pages() for line in unknown_words(page, dictionary)]
    sys.stdout.write("".join(f"{line}\n" for line in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
