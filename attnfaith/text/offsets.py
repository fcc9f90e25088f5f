"""Tokenize texts and find the characters of each token: fast tokenizers give offsets, slow ones are aligned."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from attnfaith.errors import InputError

Span = tuple[int, int]
MARKERS = "▁Ġ"  # the spaces of SentencePiece and byte-level vocabularies
_MAX_SKIP = 64  # characters: how far ahead a slow tokenizer's token is searched


@dataclass
class TokenizerOutput:
    """The output of a tokenizer for one text or pair.

    Attributes:
        inputs: the model inputs, a list for each name.
        spans: the characters of each token in its text; None where they are unknown.
        segments: 0 for tokens of the text, 1 for tokens of the pair, None for special tokens.
        word_ids: the tokenizer's word number of each token; None for a slow tokenizer.
        truncated: the number of tokens that were cut off.
    """

    inputs: dict[str, Any]
    spans: list[Span | None]
    segments: list[int | None]
    word_ids: list[int | None] | None
    truncated: int = 0

    @property
    def ids(self) -> list[int]:
        """The token ids."""
        return list(self.inputs["input_ids"])


def tokenize(tokenizer: Any, pairs: list[tuple[str, str | None]], max_length: int | None) -> list[TokenizerOutput]:
    """Tokenize texts (paired with None) or pairs, not both at once."""
    if tokenizer.is_fast:
        return _read_fast(tokenizer, pairs, max_length)
    return [_read_slow(tokenizer, pair, max_length) for pair in pairs]


def _read_fast(tokenizer: Any, pairs: list[tuple[str, str | None]], max_length: int | None) -> list[TokenizerOutput]:
    full_batch = _call(tokenizer, pairs)
    outputs = []
    for index, pair in enumerate(pairs):
        batch, row, length = full_batch, index, len(full_batch["input_ids"][index])
        if max_length is not None and length > max_length:
            batch, row = _call(tokenizer, [pair], truncation=True, max_length=max_length), 0
        values = {name: list(rows[row]) for name, rows in batch.items()}
        special, offsets = values.pop("special_tokens_mask"), values.pop("offset_mapping")
        segments = [None if flag else segment for flag, segment in zip(special, batch.sequence_ids(row), strict=True)]
        spans = [tuple(span) if span[0] < span[1] else None for span in offsets]
        truncated = length - len(values["input_ids"])
        outputs.append(TokenizerOutput(values, spans, segments, list(batch.word_ids(row)), truncated))
    return outputs


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
        raise InputError(f"{type(tokenizer).__name__} does not take {kind}: {error}", code="not-a-text") from error


def _read_slow(tokenizer: Any, pair: tuple[str, str | None], max_length: int | None) -> TokenizerOutput:
    texts = [text for text in pair if text is not None]
    parts = []  # the ids and spans of each text
    for text in texts:
        tokens = tokenizer.tokenize(text)
        ids: Any = tokenizer.convert_tokens_to_ids(tokens)
        spans = align(tokens, text, tokenize_word=tokenizer.tokenize)
        parts.append(list(zip(ids, spans, strict=True)))
    special = tokenizer.num_special_tokens_to_add(pair=len(texts) == 2)
    length = sum(map(len, parts)) + special
    excess = 0 if max_length is None else max(0, length - max_length)
    for _ in range(excess):  # the truncation strategy "longest_first"
        longest = max(parts, key=len)
        longest.pop(0 if tokenizer.truncation_side == "left" else -1)
    lists = [[number for number, _ in part] for part in parts]
    try:
        values = dict(tokenizer.prepare_for_model(*lists, add_special_tokens=True, verbose=False))
    except (TypeError, ValueError, NotImplementedError) as error:
        raise InputError(
            f"{type(tokenizer).__name__} does not take {len(texts)} text(s): {error}", code="not-a-text"
        ) from error
    ids = list(values["input_ids"])
    result = TokenizerOutput(values, [None] * len(ids), [None] * len(ids), None, truncated=excess)
    start = 0
    for segment, part in enumerate(parts):
        start = _find(lists[segment], ids, start)
        result.segments[start : start + len(part)] = [segment] * len(part)
        result.spans[start : start + len(part)] = [span for _, span in part]
        start += len(part)
    return result


def _find(part: list[int], ids: list[int], start: int) -> int:
    """The index in ``ids``, from ``start`` on, at which a list of ids begins."""
    for index in range(start, len(ids) - len(part) + 1):
        if ids[index : index + len(part)] == part:
            return index
    raise InputError(
        "The tokenizer gives a text other ids when it stands alone than within the model's input, so its tokens cannot "
        "be found in the text. Use a fast tokenizer.",
        code="wrong-tokenizer",
    )


def align(tokens: Sequence[str], text: str, *, tokenize_word: Any = None) -> list[Span | None]:
    """Find the characters of each token for a tokenizer without offsets; None where they cannot be found.

    Tokens are searched from left to right, ignoring case, accents and compatibility forms. If the tokenizer treats
    every word (run without white space) by itself, so does the search, and an unknown word does not affect others.

    Example:
        >>> align(["[UNK]", "caf", "##es"], "Zwölf CAFÉS")
        [(0, 5), (6, 9), (9, 11)]
    """
    size = len(text.encode())
    if len(tokens) == size and all(len(token) == 1 for token in tokens) and "".join(tokens) != text:
        return [(i, i + 1) for i, character in enumerate(text) for _ in character.encode()]  # one token per byte
    words = [match.span() for match in re.finditer(r"\S+", text)]
    parts = [] if tokenize_word is None else [tokenize_word(text[start:end]) for start, end in words]
    if [token for part in parts for token in part] != list(tokens):
        return _search(tokens, text)
    spans: list[Span | None] = []
    for (start, end), part in zip(words, parts, strict=True):
        inside = _search(part, text[start:end])
        spans += [None if span is None else (span[0] + start, span[1] + start) for span in inside]
    return spans


def _search(tokens: Sequence[str], text: str) -> list[Span | None]:
    """Search tokens one after the other in the folded text; folding can change the number of characters."""
    folded, original_index = [], []
    for index, character in enumerate(text):
        for folded_character in _fold(character):
            folded.append(folded_character)
            original_index.append(index)
    spans: list[Span | None] = []
    position = 0
    for token in tokens:
        match = _match(_fold(token), folded, position, max_skip=1) or _match(_fold(surface_of(token)), folded, position)
        if match is None:
            spans.append(None)
            continue
        start, position = match
        spans.append((original_index[start], original_index[position - 1] + 1))
    _fill(spans, tokens, text)
    return spans


def _match(surface: str, folded: list[str], position: int, max_skip: int = _MAX_SKIP) -> Span | None:
    """The next occurrence of a folded token; white space before it and combining marks within it are skipped."""
    if not surface:
        return None
    while max_skip == 1 and position < len(folded) and folded[position].isspace() and not surface[0].isspace():
        position += 1
    for start in range(position, min(len(folded), position + max_skip)):
        end = start
        for character in surface:
            while end < len(folded) and end > start and folded[end] != character and is_mark(folded[end]):
                end += 1
            if end >= len(folded) or folded[end] != character:
                break
            end += 1
        else:
            return start, end
    return None


def _fill(spans: list[Span | None], tokens: Sequence[str], text: str) -> None:
    """Give a token that was not found the gap between its neighbours, if both of these were found."""
    for index, span in enumerate(spans):
        alone = index == 0 or spans[index - 1] is not None
        alone = alone and (index + 1 == len(spans) or spans[index + 1] is not None)
        if span is None and alone and surface_of(tokens[index]):
            before, after = spans[index - 1] if index else (0, 0), spans[index + 1] if index + 1 < len(spans) else None
            start, end = before[1] if before else 0, after[0] if after else len(text)
            gap = text[start:end]
            if gap.strip():
                start += len(gap) - len(gap.lstrip())
                spans[index] = (start, start + len(gap.strip()))


def surface_of(token: str) -> str:
    """A token without the vocabulary's markers of word boundaries; "" for a token that is only a space."""
    if not token.strip(MARKERS):
        return ""
    return token.removeprefix("##").removesuffix("@@").removesuffix("</w>").lstrip(MARKERS) or token


@lru_cache(maxsize=65536)
def _fold(string: str) -> str:
    """A string without case, accents and compatibility forms."""
    plain = "".join(character for character in unicodedata.normalize("NFKD", string) if not is_mark(character))
    return plain.casefold() or string


def spells(token: str, characters: str) -> bool:
    """Whether a token stands for these characters: apart from markers, case, accents and compatibility forms.

    Example:
        >>> spells("##es", "ÉS"), spells("[UNK]", "ÉS")
        (True, False)
    """
    return _fold(characters) in (_fold(token), _fold(surface_of(token)))


def is_mark(character: str) -> bool:
    """True for a combining mark, which modifies the character before it."""
    return unicodedata.category(character).startswith("M")
