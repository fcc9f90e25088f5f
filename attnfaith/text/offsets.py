"""Tokens and where they stand in the text: fast tokenizers say so, for slow ones it is looked for."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from attnfaith.errors import InputError

Span = tuple[int, int]
MARKERS = "▁Ġ"  # how vocabularies write a space
_FAR = 64  # characters: how far ahead a slow tokenizer's token is looked for


@dataclass
class TokenizerOutput:
    """What a tokenizer says of one text or pair, before it is put in order."""

    inputs: dict[str, Any]
    spans: list[Span | None]
    segments: list[int | None]
    word_ids: list[int | None] | None
    truncated: int = 0

    @property
    def ids(self) -> list[int]:
        """The token ids."""
        return list(self.inputs["input_ids"])


def read(tokenizer: Any, pairs: list[tuple[str, str | None]], max_length: int | None) -> list[TokenizerOutput]:
    """Tokenize texts (paired with None) or pairs, not both at once."""
    if tokenizer.is_fast:
        return _read_fast(tokenizer, pairs, max_length)
    return [_read_slow(tokenizer, pair, max_length) for pair in pairs]


def _read_fast(tokenizer: Any, pairs: list[tuple[str, str | None]], max_length: int | None) -> list[TokenizerOutput]:
    whole = _call(tokenizer, pairs)
    reads = []
    for row, pair in enumerate(pairs):
        batch, at, full = whole, row, len(whole["input_ids"][row])
        if max_length is not None and full > max_length:
            batch, at = _call(tokenizer, [pair], truncation=True, max_length=max_length), 0
        values = {name: list(rows[at]) for name, rows in batch.items()}
        special, offsets = values.pop("special_tokens_mask"), values.pop("offset_mapping")
        segments = [None if flag else own for flag, own in zip(special, batch.sequence_ids(at), strict=True)]
        spans = [tuple(span) if span[0] < span[1] else None for span in offsets]
        truncated = full - len(values["input_ids"])
        reads.append(TokenizerOutput(values, spans, segments, list(batch.word_ids(at)), truncated))
    return reads


def _call(tokenizer: Any, pairs: list[tuple[str, str | None]], **options: Any) -> Any:
    seconds = None if pairs[0][1] is None else [second for _, second in pairs]
    try:
        return tokenizer(
            [first for first, _ in pairs],
            seconds,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            verbose=False,
            **options,
        )
    except (TypeError, ValueError, KeyError, NotImplementedError) as error:
        kind = "text pairs" if seconds else "plain texts"
        raise InputError(f"{type(tokenizer).__name__} does not take {kind}: {error}") from error


def _read_slow(tokenizer: Any, pair: tuple[str, str | None], max_length: int | None) -> TokenizerOutput:
    texts = [text for text in pair if text is not None]
    placed = []
    for text in texts:
        tokens = tokenizer.tokenize(text)
        ids: Any = tokenizer.convert_tokens_to_ids(tokens)
        spans = align(tokens, text, tokenize=tokenizer.tokenize)
        placed.append(list(zip(ids, spans, strict=True)))
    special = tokenizer.num_special_tokens_to_add(pair=len(texts) == 2)
    full = sum(map(len, placed)) + special
    excess = 0 if max_length is None else max(0, full - max_length)
    for _ in range(excess):  # as "longest_first" does
        longest = max(placed, key=len)
        longest.pop(0 if tokenizer.truncation_side == "left" else -1)
    lists = [[number for number, _ in part] for part in placed]
    try:
        values = dict(tokenizer.prepare_for_model(*lists, add_special_tokens=True, verbose=False))
    except (TypeError, ValueError, NotImplementedError) as error:
        raise InputError(f"{type(tokenizer).__name__} does not take {len(texts)} text(s): {error}") from error
    ids = list(values["input_ids"])
    result = TokenizerOutput(values, [None] * len(ids), [None] * len(ids), None, truncated=excess)
    start = 0
    for segment, part in enumerate(placed):
        start = _find(lists[segment], ids, start)
        result.segments[start : start + len(part)] = [segment] * len(part)
        result.spans[start : start + len(part)] = [span for _, span in part]
        start += len(part)
    return result


def _find(part: list[int], ids: list[int], start: int) -> int:
    for at in range(start, len(ids) - len(part) + 1):
        if ids[at : at + len(part)] == part:
            return at
    raise InputError("The tokenizer gives other ids for a text alone than within the model's input. Use a fast one.")


def align(tokens: Sequence[str], text: str, *, tokenize: Any = None) -> list[Span | None]:
    """Where tokens of a tokenizer without offsets stand in a text; None where that cannot be told.

    Tokens are looked for from left to right; case, accents and compatibility forms do not matter. Where the tokenizer
    takes every word (run without white space) for itself, so does the search: an unknown word costs no other.

    Example:
        >>> align(["[UNK]", "caf", "##es"], "Zwölf CAFÉS")
        [(0, 5), (6, 9), (9, 11)]
    """
    size = len(text.encode())
    if len(tokens) == size and all(len(token) == 1 for token in tokens) and "".join(tokens) != text:
        return [(at, at + 1) for at, character in enumerate(text) for _ in character.encode()]  # one token per byte
    words = [(at, at + len(word)) for at, word in _split(text)]
    parts = [] if tokenize is None else [tokenize(text[start:end]) for start, end in words]
    if [token for part in parts for token in part] != list(tokens):
        return _search(tokens, text)
    spans: list[Span | None] = []
    for (start, end), part in zip(words, parts, strict=True):
        inside = _search(part, text[start:end])
        spans += [None if span is None else (span[0] + start, span[1] + start) for span in inside]
    return spans


def _split(text: str) -> Iterator[tuple[int, str]]:
    at = 0
    for word in text.split():
        at = text.index(word, at)
        yield at, word
        at += len(word)


def _search(tokens: Sequence[str], text: str) -> list[Span | None]:
    folded, where = [], []
    for at, character in enumerate(text):
        for one in _fold(character):
            folded.append(one)
            where.append(at)
    spans: list[Span | None] = []
    place = 0
    for token in tokens:
        found = _match(_fold(token), folded, place, far=1) or _match(_fold(surface_of(token)), folded, place)
        if found is None:
            spans.append(None)
            continue
        start, place = found
        spans.append((where[start], where[place - 1] + 1))
    _fill(spans, tokens, text)
    return spans


def _match(surface: str, folded: list[str], place: int, far: int = _FAR) -> Span | None:
    """The next occurrence of a folded token, white space before it not counted, and marks within it passed over."""
    if not surface:
        return None
    while far == 1 and place < len(folded) and folded[place].isspace() and not surface[0].isspace():
        place += 1
    for start in range(place, min(len(folded), place + far)):
        at = start
        for character in surface:
            while at < len(folded) and at > start and folded[at] != character and is_mark(folded[at]):
                at += 1
            if at >= len(folded) or folded[at] != character:
                break
            at += 1
        else:
            return start, at
    return None


def _fill(spans: list[Span | None], tokens: Sequence[str], text: str) -> None:
    """A token that was not found has the gap between its neighbours, if it has it alone."""
    for place, span in enumerate(spans):
        alone = place == 0 or spans[place - 1] is not None
        alone = alone and (place + 1 == len(spans) or spans[place + 1] is not None)
        if span is None and alone and surface_of(tokens[place]):
            before, after = spans[place - 1] if place else (0, 0), spans[place + 1] if place + 1 < len(spans) else None
            start, end = before[1] if before else 0, after[0] if after else len(text)
            gap = text[start:end]
            if gap.strip():
                start += len(gap) - len(gap.lstrip())
                spans[place] = (start, start + len(gap.strip()))


def surface_of(token: str) -> str:
    """A vocabulary's token without its marks of where words begin and end; "" for one that is only a space."""
    if not token.strip(MARKERS):
        return ""
    return token.removeprefix("##").removesuffix("@@").removesuffix("</w>").lstrip(MARKERS) or token


@lru_cache(maxsize=65536)
def _fold(string: str) -> str:
    plain = "".join(one for one in unicodedata.normalize("NFKD", string) if not is_mark(one)).casefold()
    return plain or string


def is_mark(character: str) -> bool:
    """Whether a character only modifies the one before it."""
    return unicodedata.category(character).startswith("M")
