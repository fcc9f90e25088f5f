"""Which word each token belongs to, and a text as the model reads it, put together from what its tokenizer says."""

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
    """A text as the model reads it, and how its tokens lie in the text.

    Attributes:
        text: as given.
        pair: the second text, where there is one.
        ids: the token ids.
        inputs: per token, every input of the model that the tokenizer gives; without padding.
        tokens: to be shown: the characters of the text a token stands for (an unknown word's own, not "[UNK]"), or the
            name of a special token.
        offsets: half-open ranges of characters in the token's own text; None for special tokens, for a leading space
            that is only in the vocabulary, and where a token without offsets could not be found.
        segments: 0 for the text, 1 for the pair, None for special tokens.
        words: the number of the word a token belongs to, running on over the pair; None for special tokens, and in a
            text without words.
        sentences: the number of its sentence, where the tokenizer marks sentences for the model; else None.
        truncated: how many tokens were cut off.
        notes: what a reader should know.
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
    found: TokenizerOutput,
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
    """Put in order what a tokenizer says of a text.

    Args:
        found: what it says.
        text: the text.
        pair: the second text, where there is one.
        raw: the tokens as the vocabulary writes them.
        inputs: what the model is given.
        special_ids: of tokens that are no part of a text.
        roles: what special ids are for: "pad", "eos", ...
        max_length: at which the text was cut off, if it was.
        sentences: the number of each token's sentence, where the tokenizer marks them.
    """
    ids, notes, texts = found.ids, [], (text, pair or "")
    literal = [place for place, own in enumerate(found.segments) if own is not None and ids[place] in special_ids]
    if literal:
        named = ", ".join(sorted({raw[place] for place in literal}))
        notes.append(f"the text itself holds {named}, which the tokenizer reads as a special token")
    segments = [None if place in literal else own for place, own in enumerate(found.segments)]
    for side in range(1 if pair is None else 2):
        if not texts[side].strip() or side not in segments:
            which = "the text" if pair is None else f"the {('first', 'second')[side]} text"
            notes.append(f"{which} is empty" + (" (white space only)" if texts[side] else ""))
    if 1 in segments and segments.index(1) and segments[segments.index(1) - 1] == 0:
        notes.append("the tokenizer puts nothing between the two texts")
    if found.truncated:
        notes.append(f"{found.truncated} tokens were cut off: max_length is {max_length}")
    spans, openers = _tidy(raw, found.spans, segments, texts)
    facts = list(zip(raw, ids, segments, spans, openers, strict=True))
    lost = sum(own is not None and not opens and span is None for _, _, own, span, opens in facts)
    if lost:
        notes.append(f"{lost} tokens could not be found in the text: this tokenizer gives no offsets")
    return EncodedText(
        text=text,
        pair=pair,
        ids=tuple(ids),
        inputs=inputs,
        tokens=tuple(
            _shown(token, None if own is None or span is None else texts[own][slice(*span)], roles.get(number))
            for token, number, own, span, _ in facts
        ),
        offsets=tuple(spans),
        segments=tuple(segments),
        words=_words(spans, openers, segments, found.word_ids, texts),
        sentences=sentences,
        truncated=found.truncated,
        notes=tuple(notes),
    )


def _shown(token: str, piece: str | None, role: str | None) -> str:
    if piece is not None:
        return piece.translate(BLANKS) if piece.isspace() else piece
    if role is not None and not token.isprintable():
        return f"[{role.upper()}]"  # CANINE's are private characters
    return surface_of(token) or "␣"


def _tidy(
    raw: list[str], spans: list[Span | None], segments: list[int | None], texts: tuple[str, str]
) -> tuple[list[Span | None], list[bool]]:
    """Offsets without white space and with the marks that belong to them, and which tokens are only a space."""
    tidy: list[Span | None] = []
    openers = []
    for token, span, own in zip(raw, spans, segments, strict=True):
        bare = not token.strip(MARKERS)
        if own is None or span is None:
            tidy.append(None)
            openers.append(own is not None and bare)
            continue
        start, end = span
        piece = texts[own][start:end]
        if piece.isspace():
            tidy.append(span)
        elif bare and piece != token:
            tidy.append(None)  # a space put before the text, with the offsets of what follows
        else:
            tidy.append((start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())))
        openers.append(piece.isspace() or tidy[-1] is None)
    covered = {(own, at) for own, span in zip(segments, tidy, strict=True) if span for at in range(*span)}
    for place, (own, found) in enumerate(zip(segments, tidy, strict=True)):
        if own is None or found is None:
            continue
        start, end = found
        while end < len(texts[own]) and _hangs(texts[own][end]) and (own, end) not in covered:
            end += 1
        tidy[place] = (start, end)
    return tidy, openers


def _words(
    spans: list[Span | None],
    openers: list[bool],
    segments: list[int | None],
    ids: list[int | None] | None,
    texts: tuple[str, str],
) -> tuple[int | None, ...]:
    """The number of each token's word: the tokenizer's words, cut further where one holds several.

    White space, punctuation, and scripts written without spaces end a word within one of SentencePiece's; a combining
    mark and its neighbours stay together, which byte-level vocabularies take apart. Tokens of white space are no words:
    they belong to the word that follows, at the end to the last one, and to none where a text has no word.
    """

    def joins(left: int, right: int) -> bool:
        a, b, text = spans[left], spans[right], texts[segments[right] or 0]
        known = ids is not None and ids[left] is not None and ids[right] is not None
        same = not known or (ids is not None and ids[left] == ids[right])
        if openers[right] or openers[left]:
            return openers[left]  # white space never ends in a word of its own, however the vocabulary cuts it
        if a is None or b is None:
            return known and same
        if b[0] < a[1]:
            return True
        if text[a[1] : b[0]].strip() != text[a[1] : b[0]] or text[b[0]].isspace() or text[a[1] - 1].isspace():
            return False
        return _sticks(text, a[1] - 1, b[0]) or (same and not _parts_words(text, a[1] - 1, b[0]))

    groups: list[list[int]] = []
    for place, own in enumerate(segments):
        if own is None:
            continue
        last = groups[-1][-1] if groups else None
        if last == place - 1 and segments[last] == own and joins(last, place):
            groups[-1].append(place)
        else:
            groups.append([place])
    numbers: list[int | None] = [None] * len(segments)
    count = 0
    for group in groups:
        blank = all(openers[place] for place in group)  # nothing follows in this text: it hangs on the word before
        own = segments[group[0]]
        if blank and not any(numbers[place] is not None and segments[place] == own for place in range(group[0])):
            continue
        count += not blank
        for place in group:
            numbers[place] = count - 1
    return tuple(numbers)


def _sticks(text: str, left: int, right: int) -> bool:
    a, b = text[left], text[right]
    return _hangs(b) or a == _JOINER or (_hangs(a) and b.isalnum() and not _is_spaceless(b))


def _parts_words(text: str, left: int, right: int) -> bool:
    """Whether a word ends between two neighbouring characters."""
    a, b = text[left], text[right]
    if _is_spaceless(a) or _is_spaceless(b):
        return True
    if _in_word(a) == _in_word(b):
        return False
    at = right if _in_word(a) else left
    around = text[at - 1 : at] + text[at + 1 : at + 2]
    inner = (text[at] in _INNER and around.isalnum()) or (text[at] in ".,:" and around.isdecimal())
    return not (inner and len(around) == 2)


def _hangs(character: str) -> bool:
    """Whether a character belongs to the one before it: marks, skin tones, and what is invisible, as joiners are."""
    kind = unicodedata.category(character)
    return kind.startswith("M") or kind == "Cf" or "\U0001f3fb" <= character <= "\U0001f3ff"


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_" or is_mark(character)


@lru_cache(maxsize=65536)
def _is_spaceless(character: str) -> bool:
    return unicodedata.name(character, "").startswith(_SPACELESS)
