"""`EncodedText`: a text as the model reads it, with the word, sentence and characters of each token."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from attnfaith.text.offsets import MARKERS, Span, TokenizerOutput, is_mark, surface_of

BLANKS = str.maketrans({" ": "␣", "\n": "↵", "\t": "⇥"})
_SPACELESS = ("CJK UNIFIED", "CJK COMPAT", "HIRAGANA", "KATAKANA", "HALFWIDTH KATA", "THAI", "LAO", "KHMER", "MYANMAR")
_JOINER = "\u200d"
_INNER = "'-\u2019\u2010"  # inside a word: apostrophes and hyphens


@dataclass(frozen=True)
class EncodedText:
    """A text as the model reads it, with the position of each token in the text.

    Attributes:
        text: the text.
        pair: the second text of a pair, or None.
        ids: the token ids.
        inputs: the model inputs from the tokenizer, one value per token, without padding.
        tokens: the tokens for display: their characters in the text (also of an unknown word, not "[UNK]"), or the
            name of a special token.
        offsets: half-open ranges of characters in the text or pair of the token; None for special tokens, for a
            leading space that is only in the vocabulary, and for a token that could not be found.
        segments: 0 for the text, 1 for the pair, None for special tokens.
        words: the word number of each token, continuing through the pair; None for special tokens, and in a text
            without words.
        sentences: the sentence number of each token, if the tokenizer marks sentences for the model; else None.
        truncated: the number of tokens that were cut off.
        notes: notes for the reader of an explanation.
    """

    text: str
    pair: str | None
    ids: tuple[int, ...]
    inputs: dict[str, tuple[Any, ...]]
    tokens: tuple[str, ...]
    offsets: tuple[Span | None, ...]
    segments: tuple[int | None, ...]
    words: tuple[int | None, ...]
    sentences: tuple[int, ...] | None = None
    truncated: int = 0
    notes: tuple[str, ...] = ()


def build_encoded(
    output: TokenizerOutput,
    text: str,
    pair: str | None,
    *,
    raw: list[str],
    inputs: dict[str, tuple[Any, ...]],
    special_ids: frozenset[int],
    roles: dict[int, str],
    max_length: int | None,
    sentences: tuple[int, ...] | None,
) -> EncodedText:
    """Build an `EncodedText` from the output of a tokenizer: find words, tidy offsets, and add notes.

    Args:
        output: the output of the tokenizer.
        text: the text.
        pair: the second text of a pair, or None.
        raw: the tokens as the vocabulary writes them.
        inputs: the inputs of the model.
        special_ids: the ids of special tokens.
        roles: the role of special ids: "pad", "eos", ...
        max_length: the length limit, if any.
        sentences: the sentence number of each token, if the tokenizer marks sentences.
    """
    ids, notes, texts = output.ids, [], (text, pair or "")
    literal = [i for i, segment in enumerate(output.segments) if segment is not None and ids[i] in special_ids]
    if literal:
        named = ", ".join(sorted({raw[index] for index in literal}))
        notes.append(f"the text itself holds {named}, which the tokenizer reads as a special token")
    segments = [None if index in literal else segment for index, segment in enumerate(output.segments)]
    for number in range(1 if pair is None else 2):
        if not texts[number].strip() or number not in segments:
            which = "the text" if pair is None else f"the {('first', 'second')[number]} text"
            notes.append(f"{which} is empty" + (" (white space only)" if texts[number] else ""))
    if 1 in segments and segments.index(1) and segments[segments.index(1) - 1] == 0:
        notes.append("the tokenizer puts nothing between the two texts")
    if output.truncated:
        notes.append(f"{output.truncated} tokens were cut off: the limit is {max_length}")
    spans, spaces = _tidy_offsets(raw, output.spans, segments, texts)
    tokens = list(zip(raw, ids, segments, spans, spaces, strict=True))
    unplaced = sum(segment is not None and not space and span is None for _, _, segment, span, space in tokens)
    if unplaced:
        notes.append(f"{unplaced} tokens could not be found in the text: this tokenizer gives no offsets")
    return EncodedText(
        text=text,
        pair=pair,
        ids=tuple(ids),
        inputs=inputs,
        tokens=tuple(
            _display(
                token, None if segment is None or span is None else texts[segment][slice(*span)], roles.get(number)
            )
            for token, number, segment, span, _ in tokens
        ),
        offsets=tuple(spans),
        segments=tuple(segments),
        words=_word_numbers(spans, spaces, segments, output.word_ids, texts),
        sentences=sentences,
        truncated=output.truncated,
        notes=tuple(notes),
    )


def _display(token: str, characters: str | None, role: str | None) -> str:
    """A token for display: its characters in the text, else the name of its role, else its vocabulary entry."""
    if characters is not None:
        return characters.translate(BLANKS) if characters.isspace() else characters
    if role is not None and not token.isprintable():
        return f"[{role.upper()}]"  # CANINE's special tokens are private characters
    return surface_of(token) or "␣"


def _tidy_offsets(
    raw: list[str], spans: list[Span | None], segments: list[int | None], texts: tuple[str, str]
) -> tuple[list[Span | None], list[bool]]:
    """Strip white space from offsets and add combining marks to them; also True for tokens that are only a space."""
    tidy: list[Span | None] = []
    spaces = []
    for token, span, segment in zip(raw, spans, segments, strict=True):
        only_marker = not token.strip(MARKERS)
        if segment is None or span is None:
            tidy.append(None)
            spaces.append(segment is not None and only_marker)
            continue
        start, end = span
        characters = texts[segment][start:end]
        if not only_marker and characters[:1].isalnum() and characters[-1:].isalnum():
            tidy.append(span)
            spaces.append(False)
            continue
        if characters.isspace():
            tidy.append(span)
        elif only_marker and characters != token:
            tidy.append(None)  # a space that the tokenizer put before the text, with the offsets of what follows
        else:
            stripped = len(characters.lstrip()), len(characters.rstrip())
            tidy.append((start + len(characters) - stripped[0], end - len(characters) + stripped[1]))
        spaces.append(characters.isspace() or tidy[-1] is None)
    for number, text in enumerate(texts):
        if not text.isascii():  # no character of ASCII is a mark
            _add_marks(tidy, segments, number, text)
    return tidy, spaces


def _add_marks(spans: list[Span | None], segments: list[int | None], number: int, text: str) -> None:
    """Extend the offsets of one segment's tokens by the marks behind them that no token covers."""
    of_segment = [index for index, segment in enumerate(segments) if segment == number]
    covered = {position for index in of_segment for position in range(*(spans[index] or (0, 0)))}
    for index in of_segment:
        span = spans[index]
        if span is not None:
            start, end = span
            while end < len(text) and _attaches_to_previous(text[end]) and end not in covered:
                end += 1
            spans[index] = (start, end)


def _word_numbers(
    spans: list[Span | None],
    spaces: list[bool],
    segments: list[int | None],
    ids: list[int | None] | None,
    texts: tuple[str, str],
) -> tuple[int | None, ...]:
    """The word number of each token: the words of the tokenizer, split further where one holds several words.

    A word of SentencePiece is split at white space, at punctuation, and in scripts without spaces. A combining mark
    stays with its neighbours, which byte-level vocabularies separate. Tokens of white space are no words of their own:
    they belong to the word that follows, at the end of the text to the last word, and to none in a text without words.
    """

    def joins(left: int, right: int) -> bool:
        if spaces[right] or spaces[left]:
            return spaces[left]  # white space starts a word and never ends one, however the vocabulary splits it
        a, b, text = spans[left], spans[right], texts[segments[right] or 0]
        if a is not None and b is not None:  # most neighbours are words with white space between
            if b[0] < a[1]:
                return True
            if b[0] > a[1] and text[a[1]].isspace():
                return False
        have_ids = ids is not None and ids[left] is not None and ids[right] is not None
        same_word = not have_ids or (ids is not None and ids[left] == ids[right])
        if a is None or b is None:
            return have_ids and same_word
        if text[a[1] : b[0]].strip() != text[a[1] : b[0]] or text[b[0]].isspace() or text[a[1] - 1].isspace():
            return False
        return _inseparable(text, a[1] - 1, b[0]) or (same_word and not _is_word_boundary(text, a[1] - 1, b[0]))

    groups: list[list[int]] = []
    for token, segment in enumerate(segments):
        if segment is None:
            continue
        last = groups[-1][-1] if groups else None
        if last == token - 1 and segments[last] == segment and joins(last, token):
            groups[-1].append(token)
        else:
            groups.append([token])
    numbers: list[int | None] = [None] * len(segments)
    count = 0
    for group in groups:
        blank = all(spaces[token] for token in group)  # white space at the end of a text: part of the last word
        segment = segments[group[0]]
        if blank and not any(numbers[token] is not None and segments[token] == segment for token in range(group[0])):
            continue
        count += not blank
        for token in group:
            numbers[token] = count - 1
    return tuple(numbers)


def _inseparable(text: str, left: int, right: int) -> bool:
    """True if two neighbouring characters belong together in every script."""
    a, b = text[left], text[right]
    return (
        _attaches_to_previous(b) or a == _JOINER or (_attaches_to_previous(a) and b.isalnum() and not _is_spaceless(b))
    )


def _is_word_boundary(text: str, left: int, right: int) -> bool:
    """True if a word ends between two neighbouring characters."""
    a, b = text[left], text[right]
    if _is_spaceless(a) or _is_spaceless(b):
        return True
    if _in_word(a) == _in_word(b):
        return False
    sign = right if _in_word(a) else left
    neighbours = text[sign - 1 : sign] + text[sign + 1 : sign + 2]
    inner = (text[sign] in _INNER and neighbours.isalnum()) or (text[sign] in ".,:" and neighbours.isdecimal())
    return not (inner and len(neighbours) == 2)


def _attaches_to_previous(character: str) -> bool:
    """True for combining marks, skin tones, and invisible characters such as joiners."""
    category = unicodedata.category(character)
    return category.startswith("M") or category == "Cf" or "\U0001f3fb" <= character <= "\U0001f3ff"


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_" or is_mark(character)


@lru_cache(maxsize=65536)
def _is_spaceless(character: str) -> bool:
    return unicodedata.name(character, "").startswith(_SPACELESS)
