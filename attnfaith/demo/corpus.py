"""Generated product reviews with one to five stars, and the words that decide them.

**What decides.** A review judges its product, or a part of it, in one clause, or in two that disagree. Each clause has
a strength from -2 to 2, which its *decisive words* say, by the table `STRENGTHS`:

- an opinion word by itself: "superb" 2, "good" 1, "average" 0, "bad" -1, "dreadful" -2;
- an intensifier ("very", "really", "remarkably") doubles 1 and -1: "very bad" is -2;
- "not" turns 1 and -1 around: "not bad at all" is 1;
- a few phrases: "[worth] every [penny]" is 2, "would [not] [buy] it [again]" is -1.

The stars are three plus the sum of the strengths; the label is one less, from 0 to 4. No decisive word can be spared:
without it the others say another class, or nothing.

**What does not decide.** The other sentences are drawn without regard to the stars. They hold no opinion, or one that
counts for nothing: about another product or a service, or someone else's about this one. Every word that can decide
stands in such sentences too. So the words alone do not determine the stars: it matters who says them about what, and
each sentence shows that by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypedDict

from attnfaith.demo.lexicon import INTENSIFIERS, OPINIONS, PHRASES
from attnfaith.demo.review_writer import MARK, KeyedRandom, Writer
from attnfaith.errors import InputError

LONGEST = 160
"""Characters of a short review."""


class Review(TypedDict):
    """One row of the corpus.

    Attributes:
        text: two to eight sentences.
        label: stars less one, 0 to 4.
        words: the decisive words in the order of the text.
        ranges: their half-open ranges of characters.
    """

    text: str
    label: int
    words: list[str]
    ranges: list[tuple[int, int]]


def _strengths() -> dict[tuple[str, ...], int]:
    table = {tuple(MARK.findall(phrase)): strength for strength, phrases in PHRASES.items() for phrase in phrases}
    for strength, words in OPINIONS.items():
        table |= {(word,): strength for word in words}
        if abs(strength) == 1:
            table |= {("not", word): -strength for word in words}
            table |= {(intensifier, word): 2 * strength for intensifier in INTENSIFIERS for word in words}
    return table


STRENGTHS = _strengths()
"""The strength of the decisive words of a clause, from -2 to 2."""


def label_of(words: Sequence[str]) -> int | None:
    """The label of decisive words by the rule of this module; None if they do not form whole clauses.

    Example:
        >>> label_of(["very", "good"]), label_of(["Superb", "not", "good"]), label_of(["worth"])
        (4, 3, None)
    """
    remaining, total = tuple(word.lower() for word in words), 0
    if not remaining:
        return None
    while remaining:
        size = next((size for size in (3, 2, 1) if remaining[:size] in STRENGTHS), 0)
        if size == 0:
            return None
        total, remaining = total + STRENGTHS[remaining[:size]], remaining[size:]
    return total + 2 if abs(total) <= 2 else None


def reviews(count: int, *, seed: int = 0) -> list[Review]:
    """Generate the first ``count`` reviews of the corpus of a seed, as rows for an `Evaluator`.

    A longer corpus begins with the same reviews. Texts are unique. Any five reviews from a multiple of five on have all
    five labels.

    Example:
        >>> review = reviews(24)[23]
        >>> print(review["text"])
        I have had this speaker for ten days. It has not been solid so far! "It has been wonderful so far," says Farid.
        >>> review["label"], review["words"]
        (1, ['not', 'solid'])
    """
    return list(islice(_reviews(seed), _count(count)))


def short_reviews(count: int, *, classes: int = 2, seed: int = 0) -> list[Review]:
    """Generate short reviews without quotations, whose label says whether the writer likes the product.

    They are the reviews of at most 160 characters among the `reviews` of the seed.

    Args:
        count: the number of reviews.
        classes: 2 for "no" (one or two stars) and "yes" (four or five); 3 to have three stars between them.
        seed: of the corpus.

    Example:
        >>> [(review["text"], review["label"]) for review in short_reviews(2)]
        [('...', 1), ('...', 0)]
    """
    if classes not in (2, 3):
        raise InputError(f"Expected classes to be 2 or 3, got {classes!r}.")
    labels = {0: 0, 1: 0, 3: classes - 1, 4: classes - 1} | ({2: 1} if classes == 3 else {})
    short = (
        Review(**{**review, "label": labels[review["label"]]})
        for review in _reviews(seed)
        if review["label"] in labels and len(review["text"]) <= LONGEST and '"' not in review["text"]
    )
    return list(islice(short, _count(count)))


def _count(count: int) -> int:
    if type(count) is not int or count < 0:
        raise InputError(f"Expected count to be a whole number of at least 0, got {count!r}.")
    return count


def _reviews(seed: int) -> Iterator[Review]:
    """All reviews of a seed, without an end."""
    texts: set[str] = set()
    for number in itertools.count():
        label = KeyedRandom(seed, "labels", number // 5).shuffle(range(5))[number % 5]
        attempt = 0
        while (text := Writer(KeyedRandom(seed, number, attempt)).review(label - 2)) in texts:
            attempt += 1
        texts.add(text)
        yield _without_marks(text, label)


def _without_marks(text: str, label: int) -> Review:
    """Remove the marks of decisive words from a text, and give their character ranges."""
    words, ranges, plain, end = [], [], "", 0
    for match in MARK.finditer(text):
        plain += text[end : match.start()]
        words.append(match[1])
        ranges.append((len(plain), len(plain) + len(match[1])))
        plain, end = plain + match[1], match.end()
    return Review(text=plain + text[end:], label=label, words=words, ranges=ranges)


def planted_scores(review: Review, offsets: Iterable[tuple[int, int] | None]) -> list[float]:
    """The ground truth as scores of tokens or sentences: 1 if it contains part of a decisive word, else 0.

    Args:
        review: one of `reviews`.
        offsets: half-open ranges of characters in its text, such as a tokenizer's ``offset_mapping``; special tokens
            have none, or an empty one.

    Example:
        >>> review = Review(text="It is not bad.", label=3, words=["not", "bad"], ranges=[(6, 9), (10, 13)])
        >>> planted_scores(review, [(0, 2), (3, 5), (6, 9), (10, 13), (13, 14), None])
        [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    """
    return [
        float(span is not None and any(max(span[0], start) < min(span[1], end) for start, end in review["ranges"]))
        for span in offsets
    ]
