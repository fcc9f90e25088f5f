"""Texts into batches for the model, and for each token where it stands in the text and which word it belongs to."""

from __future__ import annotations

import inspect
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from attnfaith.adapters.probe import _SPECIAL, _parts, setting
from attnfaith.errors import InputError

Span = tuple[int, int]
_ENDLESS = 10**20  # Transformers says "no limit" as 1e30
_MARKERS = "▁Ġ"  # how vocabularies write a space
BLANKS = str.maketrans({" ": "␣", "\n": "↵", "\t": "⇥"})
_SPACELESS = ("CJK UNIFIED", "CJK COMPAT", "HIRAGANA", "KATAKANA", "HALFWIDTH KATA", "THAI", "LAO", "KHMER", "MYANMAR")
_JOINER = "\u200d"
_INNER = "'-\u2019\u2010"  # inside a word: apostrophes and hyphens
_FAR = 64  # characters: how far ahead a slow tokenizer's token is looked for


@dataclass(frozen=True)
class Encoded:
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
        words: the number of the word a token belongs to, running on over the pair; None for special tokens.
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


@dataclass
class _Read:
    """What a tokenizer says of one text, before it is put in order."""

    inputs: dict[str, Any]
    spans: list[Span | None]
    segments: list[int | None]
    word_ids: list[int | None] | None
    truncated: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def ids(self) -> list[int]:
        return list(self.inputs["input_ids"])


class Texts:
    """Encodes texts for one tokenizer and model.

    Args:
        tokenizer: any Transformers tokenizer, fast or slow.
        model: the classifier.
        max_length: longer texts are cut off; by default at what tokenizer and model take.

    Example:
        >>> import attnfaith as af
        >>> tokenizer = af.models.WordTokenizer.train(["a fine film"], min_count=1)
        >>> texts = Texts(tokenizer, af.models.from_preset("FLANnoenc", num_labels=2, tokenizer=tokenizer))
        >>> texts.encode(["A fine, fine film"])[0].tokens
        ('A', 'fine', ',', 'fine', 'film')
    """

    def __init__(self, tokenizer: Any, model: nn.Module, max_length: int | None = None) -> None:
        if not isinstance(tokenizer, PreTrainedTokenizerBase):
            raise InputError(
                f"Expected a Transformers tokenizer, got {type(tokenizer).__name__}. Load one with "
                "AutoTokenizer.from_pretrained; wrap a tokenizers.Tokenizer as "
                "PreTrainedTokenizerFast(tokenizer_object=...)."
            )
        if not tokenizer.is_fast and not hasattr(tokenizer, "prepare_for_model"):
            raise InputError(f"{type(tokenizer).__name__} gives neither offsets nor tokens. Use a fast tokenizer.")
        self.tokenizer, self.model = tokenizer, model
        self.config = getattr(model, "config", None)
        self.special_ids = special_ids_of(self.config, tokenizer)
        self.max_length = self._limit(max_length)
        self._accepted = _accepted_by(model)
        self._vocabulary = _vocabulary_of(model, self.config)

    def encode(self, texts: Sequence[Any]) -> list[Encoded]:
        """Tokenize texts and (text, text) pairs; what cannot be classified is refused by its place in the list."""
        texts = list(texts)
        if not texts:
            raise InputError("Got an empty list; expected at least one text.")
        pairs = [
            self._checked(entry, f"Entry {place}" if len(texts) > 1 else "It") for place, entry in enumerate(texts)
        ]
        reads: dict[int, _Read] = {}
        for paired in (False, True):
            places = [place for place, pair in enumerate(pairs) if (pair[1] is not None) == paired]
            if places:
                self._check_room(paired)
                read = self._read_fast if self.tokenizer.is_fast else self._read_slow
                reads |= zip(places, read([pairs[place] for place in places]), strict=True)
        return [
            self._encoded(*pair, reads[place], f"Entry {place}" if len(texts) > 1 else "It")
            for place, pair in enumerate(pairs)
        ]

    def batches(self, encoded: Sequence[Encoded], size: int) -> Iterator[list[int]]:
        """Index lists of at most ``size`` texts of similar length, the longest first; each index once.

        Where nothing can be padded, only texts of equal length share a batch. A model whose configuration leaves its
        padding token open gets its texts one by one: decoders refuse more.
        """
        _check_whole(size, "batch_size")
        declared = any(hasattr(part, "pad_token_id") for part in _parts(self.config) if part is not None)
        if declared and _pad_of(self.config) is None:
            size = 1
        # A table of positions counts left padding along with the text, and so would read it differently in a batch.
        equal = self._pad is None or (self.tokenizer.padding_side == "left" and bool(_tables(self.model)))
        order = sorted(range(len(encoded)), key=lambda index: -len(encoded[index].ids))
        batch: list[int] = []
        for index in order:
            other = batch and len(encoded[index].ids) != len(encoded[batch[0]].ids)
            if len(batch) == size or (equal and other):
                yield batch
                batch = []
            batch.append(index)
        if batch:
            yield batch

    def collate(self, encoded: Sequence[Encoded]) -> dict[str, Tensor]:
        """The model's inputs, padded on the tokenizer's side, with an ``attention_mask``."""
        width = max(len(one.ids) for one in encoded)
        if self._pad is None and any(len(one.ids) != width for one in encoded):
            raise InputError("Texts of several lengths need a padding token; batches() puts equal lengths together.")
        fills = {"input_ids": self._pad or 0, "token_type_ids": self.tokenizer.pad_token_type_id}
        batch = {}
        for name in encoded[0].inputs:
            rows = [torch.tensor(one.inputs[name]) for one in encoded]
            batch[name] = torch.stack([self._padded(row, width, fills.get(name, 0)) for row in rows])
        return batch

    @property
    def _pad(self) -> int | None:
        pad = _pad_of(self.config)  # the model's own: position numbers and last tokens are counted by it
        return self.tokenizer.pad_token_id if pad is None else pad

    def _padded(self, row: Tensor, width: int, fill: int) -> Tensor:
        padding = row.new_full((width - len(row), *row.shape[1:]), fill)
        return torch.cat((padding, row) if self.tokenizer.padding_side == "left" else (row, padding))

    def _limit(self, asked: int | None) -> int | None:
        known = position_limit(self.model)
        if asked is None:
            stated = self.tokenizer.model_max_length
            limits = [known, stated if stated and 0 < stated < _ENDLESS else None]
            return min((int(limit) for limit in limits if limit is not None), default=None)
        _check_whole(asked, "max_length")
        if known is not None and asked > known:
            raise InputError(f"max_length={asked} is more than the {known} tokens that {_name(self.model)} takes.")
        return asked

    def _check_room(self, paired: bool) -> None:
        special = self.tokenizer.num_special_tokens_to_add(pair=paired)
        least = special + (2 if paired else 1)
        if self.max_length is not None and self.max_length < least:
            raise InputError(
                f"max_length={self.max_length} leaves no room for a {'pair' if paired else 'text'}: the tokenizer adds "
                f"{special} special tokens, so at least {least} are needed."
            )

    def _checked(self, entry: Any, where: str) -> tuple[str, str | None]:
        """An entry as ``(text, pair or None)``; the wrong kind is refused."""
        if isinstance(entry, tuple) and len(entry) != 2:
            raise InputError(f"{where} is a tuple of {len(entry)}; expected a text, or a pair (text, text).")
        parts = entry if isinstance(entry, tuple) else (entry,)
        for side, part in zip(("first", "second"), parts, strict=False):
            of = f"The {side} text of {where[:1].lower() + where[1:]}" if len(parts) == 2 else where
            if not isinstance(part, str):
                raise InputError(f"{of} is of type {type(part).__name__}: expected a str, or a tuple of two.")
            try:
                part.encode()
            except UnicodeEncodeError as error:
                raise InputError(
                    f"{of} holds half a character (a lone surrogate) at place {error.start}, which no tokenizer reads. "
                    "Clean it with text.encode('utf-8', 'replace').decode()."
                ) from error
        if len(parts) == 1 and getattr(self.config, "query", False):
            raise InputError(f"{where} is a single text; this model reads pairs: expected a tuple (text, text).")
        return (parts[0], parts[1] if len(parts) == 2 else None)

    def _call(self, pairs: list[tuple[str, str | None]], **options: Any) -> Any:
        seconds = None if pairs[0][1] is None else [second for _, second in pairs]
        try:
            return self.tokenizer(
                [first for first, _ in pairs],
                seconds,
                return_offsets_mapping=True,
                return_special_tokens_mask=True,
                verbose=False,
                **options,
            )
        except (TypeError, ValueError, KeyError, NotImplementedError) as error:
            kind = "text pairs" if seconds else "plain texts"
            raise InputError(f"{_name(self.tokenizer)} does not take {kind}: {error}") from error

    def _read_fast(self, pairs: list[tuple[str, str | None]]) -> list[_Read]:
        whole = self._call(pairs)
        reads = []
        for row, pair in enumerate(pairs):
            batch, at, full = whole, row, len(whole["input_ids"][row])
            if self.max_length is not None and full > self.max_length:
                batch, at = self._call([pair], truncation=True, max_length=self.max_length), 0
            values = {name: list(rows[at]) for name, rows in batch.items()}
            special, offsets = values.pop("special_tokens_mask"), values.pop("offset_mapping")
            segments = [None if flag else own for flag, own in zip(special, batch.sequence_ids(at), strict=True)]
            spans = [tuple(span) if span[0] < span[1] else None for span in offsets]
            read = _Read(values, spans, segments, list(batch.word_ids(at)))
            read.truncated = full - len(read.ids)
            reads.append(read)
        return reads

    def _read_slow(self, pairs: list[tuple[str, str | None]]) -> list[_Read]:
        return [self._read_slow_one(pair) for pair in pairs]

    def _read_slow_one(self, pair: tuple[str, str | None]) -> _Read:
        texts = [text for text in pair if text is not None]
        placed = []
        for text in texts:
            tokens = self.tokenizer.tokenize(text)
            ids: Any = self.tokenizer.convert_tokens_to_ids(tokens)
            spans = align(tokens, text, tokenize=self.tokenizer.tokenize)
            placed.append(list(zip(ids, spans, strict=True)))
        special = self.tokenizer.num_special_tokens_to_add(pair=len(texts) == 2)
        full = sum(map(len, placed)) + special
        excess = 0 if self.max_length is None else max(0, full - self.max_length)
        for _ in range(excess):  # as "longest_first" does
            longest = max(placed, key=len)
            longest.pop(0 if self.tokenizer.truncation_side == "left" else -1)
        lists = [[number for number, _ in part] for part in placed]
        try:
            values = dict(self.tokenizer.prepare_for_model(*lists, add_special_tokens=True, verbose=False))
        except (TypeError, ValueError, NotImplementedError) as error:
            raise InputError(f"{_name(self.tokenizer)} does not take {len(texts)} text(s): {error}") from error
        ids = list(values["input_ids"])
        read = _Read(values, [None] * len(ids), [None] * len(ids), None, truncated=excess)
        start = 0
        for segment, part in enumerate(placed):
            start = _find(lists[segment], ids, start)
            read.segments[start : start + len(part)] = [segment] * len(part)
            read.spans[start : start + len(part)] = [span for _, span in part]
            start += len(part)
        return read

    def _encoded(self, text: str, pair: str | None, read: _Read, where: str) -> Encoded:
        """Put in order what the tokenizer says, and refuse what the model cannot take."""
        ids, notes = read.ids, read.notes
        self._check_fit(read, pair, where)
        texts = (text, pair or "")
        raw: Any = self.tokenizer.convert_ids_to_tokens(ids)
        literal = [
            place for place, own in enumerate(read.segments) if own is not None and ids[place] in self.special_ids
        ]
        if literal:
            named = ", ".join(sorted({raw[place] for place in literal}))
            notes.append(f"the text itself holds {named}, which the tokenizer reads as a special token")
        segments = [None if place in literal else own for place, own in enumerate(read.segments)]
        for side in range(1 if pair is None else 2):
            if not texts[side].strip() or side not in segments:
                which = "the text" if pair is None else f"the {('first', 'second')[side]} text"
                notes.append(f"{which} is empty" + (" (white space only)" if texts[side] else ""))
        if 1 in segments and segments.index(1) and segments[segments.index(1) - 1] == 0:
            notes.append("the tokenizer puts nothing between the two texts")
        if read.truncated:
            notes.append(f"{read.truncated} tokens were cut off: max_length is {self.max_length}")
        spans, openers = _tidy(raw, read.spans, segments, texts)
        lost = sum(
            own is not None and not opens and span is None
            for own, opens, span in zip(segments, openers, spans, strict=True)
        )
        if lost:
            notes.append(f"{lost} tokens could not be found in the text: this tokenizer gives no offsets")
        names = {number: name.removesuffix("_token") for name, number in _roles(self.tokenizer).items()}
        accepted = {name: tuple(rows) for name, rows in read.inputs.items() if self._accepts(name, rows, len(ids))}
        return Encoded(
            text=text,
            pair=pair,
            ids=tuple(ids),
            inputs={**accepted, "attention_mask": (1,) * len(ids)},
            tokens=tuple(
                _shown(
                    raw[place], None if own is None or span is None else texts[own][slice(*span)], names.get(ids[place])
                )
                for place, (own, span) in enumerate(zip(segments, spans, strict=True))
            ),
            offsets=tuple(spans),
            segments=tuple(segments),
            words=_words(spans, openers, segments, read.word_ids, texts),
            sentences=self._sentences(ids),
            truncated=read.truncated,
            notes=tuple(notes),
        )

    def _check_fit(self, read: _Read, pair: str | None, where: str) -> None:
        ids = read.ids
        if not ids:
            raise InputError(
                f"{where} is empty or white space, and {_name(self.tokenizer)} adds no special tokens: there is "
                "nothing to classify. Leave it out."
            )
        if self._vocabulary is not None and not 0 <= min(ids) <= max(ids) < self._vocabulary:
            raise InputError(
                f"{where} has the token id {max(ids)}, but the model's vocabulary has {self._vocabulary} entries. Is "
                "this the model's own tokenizer?"
            )
        types, known = read.inputs.get("token_type_ids"), getattr(self.config, "type_vocab_size", None)
        types = types if types and "token_type_ids" in (self._accepted or ("token_type_ids",)) else None
        if types and pair is not None and isinstance(known, int) and known and max(types) >= known:
            raise InputError(
                f"{where} is a pair, but {_name(self.model)} knows {known} token type(s): it does not take pairs. Join "
                "the two texts into one."
            )

    def _accepts(self, name: str, rows: Any, length: int) -> bool:
        per_token = isinstance(rows, list | tuple) and len(rows) == length
        known = self._accepted is None or name in self._accepted
        return per_token and known and name not in ("special_tokens_mask", "offset_mapping")

    def _sentences(self, ids: list[int]) -> tuple[int, ...] | None:
        if not getattr(self.tokenizer, "sentences", False):
            return None
        marks = {getattr(self.tokenizer, name, None) for name in ("sentence_token_id", "sep_token_id")} - {None}
        seen = torch.tensor([number in marks for number in ids]).cumsum(0)
        return tuple(seen.tolist())


def special_ids_of(config: Any, tokenizer: Any = None) -> frozenset[int]:
    """The ids that are no part of a text, by the tokenizer, or by a model's configuration; "unknown" is none of them.

    Example:
        >>> from attnfaith.families import tiny_model
        >>> sorted(special_ids_of(tiny_model("bert").config))
        [0, 1, 2]
    """
    if tokenizer is not None and hasattr(tokenizer, "all_special_ids"):
        others = {number for name, number in _roles(tokenizer).items() if name != "unk_token"}
        ids = set(tokenizer.all_special_ids)
        unknown = getattr(tokenizer, "unk_token_id", None)
        return frozenset(ids if unknown in others else ids - {unknown})
    found: set[Any] = set()
    for part in _parts(config):
        if not hasattr(part, "to_dict"):
            continue
        for name in {*part.to_dict(), *part.attribute_map}:
            if _SPECIAL.search(name) and not name.startswith("unk"):
                value = getattr(part, name, None)
                found.update(value if isinstance(value, list | tuple) else [value])
    return frozenset(number for number in found if isinstance(number, int) and number >= 0)


def position_limit(model: nn.Module) -> int | None:
    """How many tokens a model takes: its configuration and its tables of positions say; None without limit.

    Example:
        >>> from attnfaith.families import tiny_model
        >>> position_limit(tiny_model("roberta")), position_limit(tiny_model("t5"))
        (126, None)
    """
    config: Any = getattr(model, "config", None)
    tables = _tables(model)
    limits: list[Any] = [
        table.num_embeddings - table.padding_idx - 1 for table in tables if table.padding_idx is not None
    ]
    relative = any(getattr(config, name, None) for name in ("relative_attention", "relative_attention_num_buckets"))
    if tables or not relative:
        limits.append(setting(config, "max_position_embeddings", "n_positions", "max_seq_len"))
    return min((limit for limit in limits if isinstance(limit, int) and limit > 0), default=None)


def sentence_starts(text: str, language: str = "en") -> list[int]:
    """Where sentences after the first begin, by the rules of `sentencex`.

    Example:
        >>> sentence_starts("Dr. Lee cried. It was good.")
        [15]
    """
    from sentencex import get_sentence_boundaries  # type: ignore[import-untyped]

    found = get_sentence_boundaries(language, text)
    return [sentence["start_index"] for sentence in found if sentence["text"].strip()][1:]


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
        found = _match(_fold(token), folded, place, far=1) or _match(_fold(_surface(token)), folded, place)
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
            while at < len(folded) and at > start and folded[at] != character and _is_mark(folded[at]):
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
        if span is None and alone and _surface(tokens[place]):
            before, after = spans[place - 1] if place else (0, 0), spans[place + 1] if place + 1 < len(spans) else None
            start, end = before[1] if before else 0, after[0] if after else len(text)
            gap = text[start:end]
            if gap.strip():
                start += len(gap) - len(gap.lstrip())
                spans[place] = (start, start + len(gap.strip()))


def _surface(token: str) -> str:
    """A vocabulary's token without its marks of where words begin and end; "" for one that is only a space."""
    if not token.strip(_MARKERS):
        return ""
    return token.removeprefix("##").removesuffix("@@").removesuffix("</w>").lstrip(_MARKERS) or token


@lru_cache(maxsize=65536)
def _fold(string: str) -> str:
    plain = "".join(one for one in unicodedata.normalize("NFKD", string) if not _is_mark(one)).casefold()
    return plain or string


def _tidy(
    raw: list[str], spans: list[Span | None], segments: list[int | None], texts: tuple[str, str]
) -> tuple[list[Span | None], list[bool]]:
    """Offsets without white space and with the marks that belong to them, and which tokens are only a space."""
    tidy: list[Span | None] = []
    openers = []
    for token, span, own in zip(raw, spans, segments, strict=True):
        bare = not token.strip(_MARKERS)
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
    mark and its neighbours stay together, which byte-level vocabularies take apart.
    """

    def joins(left: int, right: int) -> bool:
        a, b, text = spans[left], spans[right], texts[segments[right] or 0]
        known = ids is not None and ids[left] is not None and ids[right] is not None
        same = not known or (ids is not None and ids[left] == ids[right])
        if openers[right]:
            return False
        if openers[left]:
            return same and (a is None or text[slice(*a)] == " ")
        if a is None or b is None:
            return known and same
        if b[0] < a[1]:
            return True
        if text[a[1] : b[0]].strip() != text[a[1] : b[0]] or text[b[0]].isspace() or text[a[1] - 1].isspace():
            return False
        return _sticks(text, a[1] - 1, b[0]) or (same and not _parts_words(text, a[1] - 1, b[0]))

    numbers: list[int | None] = []
    last, count = None, 0
    for place, own in enumerate(segments):
        if own is None:
            numbers.append(None)
            last = None
            continue
        if last is None or segments[last] != own or not joins(last, place):
            count += 1
        numbers.append(count - 1)
        last = place
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


def _is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")


def _hangs(character: str) -> bool:
    """Whether a character belongs to the one before it: marks, skin tones, and what is invisible, as joiners are."""
    kind = unicodedata.category(character)
    return kind.startswith("M") or kind == "Cf" or "\U0001f3fb" <= character <= "\U0001f3ff"


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_" or _is_mark(character)


@lru_cache(maxsize=65536)
def _is_spaceless(character: str) -> bool:
    return unicodedata.name(character, "").startswith(_SPACELESS)


def _shown(token: str, piece: str | None, role: str | None) -> str:
    if piece is not None:
        return piece.translate(BLANKS) if piece.isspace() else piece
    if role is not None and not token.isprintable():
        return f"[{role.upper()}]"  # CANINE's are private characters
    return _surface(token) or "␣"


def _roles(tokenizer: Any) -> dict[str, int]:
    named = getattr(tokenizer, "special_tokens_map", {})
    return {name: getattr(tokenizer, f"{name}_id") for name, token in named.items() if isinstance(token, str)}


def _tables(model: nn.Module) -> list[nn.Embedding]:
    """Learned or fixed absolute positions."""
    return [
        module
        for name, module in model.named_modules()
        if isinstance(module, nn.Embedding) and ("position" in name or name.endswith("wpe")) and "relative" not in name
    ]


def _pad_of(config: Any) -> int | None:
    pad = None if config is None else setting(config, "pad_token_id", "pad_index")
    return pad if isinstance(pad, int) and pad >= 0 else None


def _accepted_by(model: Any) -> frozenset[str] | None:
    """What the model's forward pass names; None if it names nothing and takes all."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    names = frozenset(inspect.signature(base.forward).parameters)
    return names if "input_ids" in names else None


def _vocabulary_of(model: Any, config: Any) -> int | None:
    if hasattr(config, "num_hash_buckets") or not hasattr(model, "get_input_embeddings"):
        return None  # CANINE hashes any character
    try:
        return getattr(model.get_input_embeddings(), "num_embeddings", None)
    except (NotImplementedError, AttributeError):
        return None


def _find(part: list[int], ids: list[int], start: int) -> int:
    for at in range(start, len(ids) - len(part) + 1):
        if ids[at : at + len(part)] == part:
            return at
    raise InputError("The tokenizer gives other ids for a text alone than within the model's input. Use a fast one.")


def _check_whole(number: Any, name: str) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InputError(f"Expected {name} to be a whole number of at least 1, got {number!r}.")


def _name(thing: Any) -> str:
    return type(thing).__name__
