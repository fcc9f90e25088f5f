"""Scores of pieces of a text (words, or tokens of any tokenizer) as scores of the tokens that the model reads."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from attnfaith.errors import InputError
from attnfaith.text.annotations import UNSCORED
from attnfaith.text.encoded import EncodedText
from attnfaith.text.offsets import align, spells, surface_of
from attnfaith.validation import short_repr

Piece = tuple[int, int, float]
"""A half-open range of characters, and its score."""

_UNKNOWN = ("[UNK]", "<unk>")
_SPECIAL = re.compile(r"\s*|\[(?!UNK\])[A-Z_0-9]+\]|<(?!unk>)/?\w+>|<\|.*\|>")


def token_scores(pieces: Iterable[Piece], text: EncodedText, *, other: float = UNSCORED) -> list[float]:
    """The score of each token: the sum over the pieces that it shares characters with.

    A piece of several tokens gives its score to each of them.

    Args:
        pieces: with their scores.
        text: as the model reads it; not a pair.
        other: the score of a token of the text without a piece. Special tokens are `UNSCORED`.

    Example:
        >>> text = EncodedText(
        ...     "not bad", None, (1, 2, 3), {}, ("not", "ba", "d"), ((0, 3), (4, 6), (6, 7)), (0, 0, 0), (0, 1, 1)
        ... )
        >>> token_scores([(0, 1, 0.5), (1, 3, 0.25), (4, 7, 2.0)], text)
        [0.75, 2.0, 2.0]
    """
    if text.pair is not None:
        raise InputError(
            "it is of words, and the row is a pair of texts, of which it is not known which one a word is in. Give "
            "scores for each token (a list, or from_captum)."
        )
    scored = sorted(pieces)
    scores = []
    for segment, span in zip(text.segments, text.offsets, strict=True):
        if segment is None or span is None:
            scores.append(UNSCORED)
            continue
        overlapping = [score for start, end, score in scored if start < span[1] and end > span[0]]
        scores.append(sum(overlapping) if overlapping else other)
    return scores


def located(tokens: Sequence[str], scores: Sequence[float], text: str) -> list[Piece]:
    r"""Find the tokens of another tokenizer in a text, one after the other; special tokens are left out.

    Args:
        tokens: their strings; word pieces may have the marks of their vocabulary.
        scores: of the tokens.
        text: the text.

    Example:
        >>> located(["[CLS]", "not", "ba", "##d", "[SEP]"], [9, 1, 2, 3, 9], "Not bad")
        [(0, 3, 1.0), (4, 6, 2.0), (6, 7, 3.0)]
        >>> located(["cafe", "bar"], [1, 2], "café\N{ZERO WIDTH SPACE} bar")
        [(0, 4, 1.0), (6, 9, 2.0)]
    """
    if len(tokens) != len(scores):
        raise InputError(f"it has {len(scores)} scores for {len(tokens)} tokens; expected one for each.")
    ordinary = [
        (str(token), float(score))
        for token, score in zip(tokens, scores, strict=True)
        if not _SPECIAL.fullmatch(str(token)) and surface_of(str(token).strip())
    ]
    spans = align([token.strip() for token, _ in ordinary], text)
    pieces: list[Piece] = []
    not_found = None
    for (token, score), span in zip(ordinary, spans, strict=True):
        if span is None or not _fits(token, text[slice(*span)]):
            not_found = token if not_found is None else not_found
        else:
            pieces.append((*span, score))
    covered = {index for start, end, _ in pieces for index in range(start, end)}
    end_of_pieces = max(covered, default=-1)
    # Tokenizers drop blanks, marks and invisible characters; letters, numbers, punctuation and symbols they do not.
    skipped = next(
        (
            index
            for index in range(end_of_pieces)
            if index not in covered and unicodedata.category(text[index])[0] in "LNPS"
        ),
        None,
    )
    if not_found is not None or skipped is not None:
        problem = f"no token is at character {skipped}"
        if not_found is not None:
            problem = f"the token {short_repr(not_found)} is not where it should be"
        raise InputError(
            f"its tokens do not follow the text {short_repr(text)}: {problem}. Explanations must be of the same "
            "texts, in the order of the data."
        )
    return pieces


def _fits(token: str, characters: str) -> bool:
    """Whether a token can stand for these characters.

    An unknown token can stand for any. What is not ASCII is not compared: tokens of bytes spell it in other characters.
    """
    return token in _UNKNOWN or not characters.isascii() or spells(token.strip(), characters)
