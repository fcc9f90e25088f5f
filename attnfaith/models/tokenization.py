"""A word tokenizer with the interface of Transformers' fast tokenizers, which can mark the ends of sentences."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, Self

from tokenizers import Encoding, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BatchEncoding, PreTrainedTokenizerFast

from attnfaith.errors import InputError
from attnfaith.parameter_names import parameter

PAD, UNKNOWN, SEPARATOR, SENTENCE = SPECIAL = ("[PAD]", "[UNK]", "[SEP]", "[SENT]")  # ids 0 to 3
WORDS = "|".join(
    [
        r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*",  # written without spaces
        r"(?:\p{L}\.){2,}",  # U.S.
        r"\p{N}+(?:[.,:]\p{N}+)*(?![\p{L}\p{M}])",  # 3.50
        r"(?i:n't)(?![\p{L}\p{N}])",  # do | n't, as in the vocabularies of GloVe
        r"(?<=[\p{L}\p{N}.])(?i:'(?:s|m|d|ll|re|ve))(?![\p{L}\p{N}])",
        r"[\p{L}\p{N}_]+?(?=(?i:n't)(?![\p{L}\p{N}]))",
        r"[\p{L}\p{N}_][\p{L}\p{M}\p{N}_\u200c\u200d]*",
        r"\.{2,}",
        r"(?!\s)\X",  # anything else a reader sees as one character: punctuation, an emoji with its modifiers
    ]
)
INVISIBLE = "\u00ad\u200b\u200e\u200f\ufeff"  # soft hyphen, zero-width space, direction marks, byte order mark
VISIBLE = re.compile(rf"[^\s{INVISIBLE}]")


class WordTokenizer(PreTrainedTokenizerFast):
    """Splits texts into words, numbers and punctuation marks; rare words become ``[UNK]``, and offsets are exact.

    With ``sentences=True`` a ``[SENT]`` token separates sentences. It has no width, so that offsets and ``word_ids()``
    are those of the original text. Sentences without a word are dropped. As with every special token, a literal
    "[SENT]" or "[SEP]" in a text is read as that token. Texts are not Unicode-normalised, which would shift offsets.

    Example:
        >>> tokenizer = WordTokenizer.train(["It was good. I cried."], min_count=1, sentences=True)
        >>> tokenizer.tokenize("Dr. Lee cried. It was good.")
        ['[UNK]', '.', '[UNK]', 'cried', '.', '[SENT]', 'it', 'was', 'good', '.']
    """

    # No __init__: for a tokenizer with its own, transformers 5 rebuilds the backend from the vocabulary alone.
    model_input_names = ["input_ids", "token_type_ids", "attention_mask"]  # noqa: RUF012 (as in the base class)

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        *,
        min_count: int = 5,
        max_words: int | None = None,
        lowercase: bool = True,
        sentences: bool = False,
        language: str = "en",
        model_max_length: int | None = None,
    ) -> Self:
        """Make a tokenizer of the words that occur at least ``min_count`` times in ``texts``.

        Args:
            texts: the texts; iterated over once.
            min_count: rarer words become ``[UNK]``.
            max_words: keep only this number of words, the most frequent.
            lowercase: treat "The" and "the" as one word.
            sentences: mark where sentences end, for models with ``by_sentences``.
            language: whose abbreviations and quotation marks the sentence splitter should know, such as "en" or "de".
            model_max_length: the length to which texts are truncated on request.
        """
        if isinstance(texts, str):
            raise InputError("texts is one string; expected several texts, such as a list of strings.")
        backend = Tokenizer(models.WordLevel(unk_token=UNKNOWN))
        steps = [normalizers.Replace(Regex(f"[{INVISIBLE}]"), ""), normalizers.Replace("\u2019", "'")]
        backend.normalizer = normalizers.Sequence(steps + [normalizers.Lowercase()] * lowercase)
        backend.pre_tokenizer = pre_tokenizers.Split(Regex(WORDS), "removed", invert=True)
        size = 2**31 if max_words is None else max_words + len(SPECIAL)
        trainer = trainers.WordLevelTrainer(
            vocab_size=size, min_frequency=min_count, special_tokens=list(SPECIAL), show_progress=False
        )
        backend.train_from_iterator(texts, trainer)
        if backend.get_vocab_size() == len(SPECIAL):
            raise InputError(
                f"No word occurs {min_count} times in the texts; give more texts or a smaller {parameter('min_count')}."
            )
        backend.post_processor = processors.TemplateProcessing(
            single="$A", pair=f"$A:0 {SEPARATOR}:0 $B:1", special_tokens=[(SEPARATOR, SPECIAL.index(SEPARATOR))]
        )
        limit = {} if model_max_length is None else {"model_max_length": model_max_length}
        return cls(
            tokenizer_object=backend,
            pad_token=PAD,
            unk_token=UNKNOWN,
            sep_token=SEPARATOR,
            extra_special_tokens={"sentence_token": SENTENCE},
            sentences=sentences,
            language=language,
            **limit,
        )

    @property
    def sentences(self) -> bool:
        """Whether sentence ends are marked."""
        return self.init_kwargs.get("sentences", False)

    def _sentence_starts(self, text: str) -> list[int]:
        """The offsets of sentences after the first: only sentences with visible text, and never inside a word."""
        sentences = _sentences_of(text, self.init_kwargs.get("language", "en"))
        starts = [sentence["start_index"] for sentence in sentences if VISIBLE.search(sentence["text"])][1:]
        if all(text[start - 1].isspace() for start in starts):
            return starts
        words = self.backend_tokenizer.pre_tokenizer.pre_tokenize_str(text.replace("\u2019", "'"))
        inside = {offset for _, (start, end) in words for offset in range(start + 1, end)}
        return [start for start in starts if start not in inside]

    def _mark(self, text: str | Sequence[str]) -> tuple[str | list[str], list[int]]:
        """Insert sentence tokens into a text (or a list of words); also return their positions in the result."""
        if isinstance(text, str):
            starts = self._sentence_starts(text)
            parts = [text[start:stop] for start, stop in zip([0, *starts], [*starts, len(text)], strict=True)]
            return SENTENCE.join(parts), [start + index * len(SENTENCE) for index, start in enumerate(starts)]
        ends, words = [-1], list(text)
        for word in words:
            ends.append(ends[-1] + 1 + len(word))
        starts = sorted({bisect_left(ends, start - 1) for start in self._sentence_starts(" ".join(words))})
        starts = [start for start in starts if 0 < start < len(words)]
        for index, start in enumerate(starts):
            words.insert(start + index, SENTENCE)
        return words, [start + index for index, start in enumerate(starts)]

    def _encode_plus(  # type: ignore[override]
        self,
        text: Any,
        text_pair: Any = None,
        *,
        is_split_into_words: bool = False,
        return_tensors: Any = None,
        return_overflowing_tokens: bool = False,
        **options: Any,
    ) -> BatchEncoding:
        """Encode the text with sentence tokens inserted, then correct offsets and word numbers in the encodings."""
        options |= {"is_split_into_words": is_split_into_words, "return_overflowing_tokens": return_overflowing_tokens}
        if not self.sentences:
            return super()._encode_plus(text, text_pair, return_tensors=return_tensors, **options)
        if options.get("split_special_tokens") or self.split_special_tokens:
            raise InputError(
                "split_special_tokens would split the sentence tokens too; use a tokenizer without sentences."
            )
        batched = isinstance(text, (list, tuple))
        if batched and is_split_into_words:
            batched = bool(text) and isinstance(text[0], (list, tuple))
        samples = _samples(text, text_pair, batched=batched, words=is_split_into_words)
        marked = [[self._mark(part) for part in sample] for sample in samples]
        inputs: Any = [tuple(part for part, _ in sample) if len(sample) == 2 else sample[0][0] for sample in marked]
        output = super()._encode_plus(inputs, return_tensors=None, **options)
        sample_of = output.get("overflow_to_sample_mapping", range(len(inputs)))
        encodings = [
            _repair(encoding, [marks for _, marks in marked[sample]], words=is_split_into_words)
            for encoding, sample in zip(output.encodings or [], sample_of, strict=True)
        ]
        data = dict(output)
        for key, attribute in (("offset_mapping", "offsets"), ("special_tokens_mask", "special_tokens_mask")):
            if key in data:
                data[key] = [getattr(encoding, attribute) for encoding in encodings]
        if not batched and return_tensors is None and not return_overflowing_tokens:
            data = {key: value[0] if isinstance(value[0], list) else value for key, value in data.items()}
        return BatchEncoding(data, encodings, tensor_type=return_tensors)


def _sentences_of(text: str, language: str) -> list[dict[str, Any]]:
    """The sentences of a text, with the offsets of their first characters.

    The sentence splitter fails on a few texts with white space beyond ASCII, such as a capital letter and a no-break
    space before a full stop. It then reads ordinary spaces in their place.
    """
    from sentencex import get_sentence_boundaries  # type: ignore[import-untyped]

    try:
        return list(get_sentence_boundaries(language, text))
    except BaseException as error:  # a panic of a library in Rust is no `Exception`
        if type(error).__name__ != "PanicException" or text.isascii():
            raise
        return list(get_sentence_boundaries(language, re.sub(r"\s", " ", text)))


def _samples(text: Any, text_pair: Any, *, batched: bool, words: bool) -> list[tuple[Any, ...]]:
    """The samples in the arguments of a tokenizer's call: for each a tuple of one or two texts."""
    if not batched:
        return [(text, text_pair)] if text_pair else [(text,)]
    if text_pair is not None:
        if isinstance(text_pair, str) or len(text) != len(text_pair):
            raise InputError("text is a batch, so text_pair must be one too, with as many texts.")
        return list(zip(text, text_pair, strict=True))
    return [(sample,) if _is_single_text(sample, words=words) else tuple(sample) for sample in text]


def _is_single_text(sample: Any, *, words: bool) -> bool:
    """Whether a sample is a single text and not a pair; a text is a string, or a list of strings with ``words``."""
    return isinstance(sample, str) or (words and (not sample or isinstance(sample[0], str)))


def _repair(encoding: Encoding, marks: list[list[int]], *, words: bool) -> Encoding:
    """The encoding of texts with sentence tokens at ``marks``, with the offsets and words of the original texts.

    An ``Encoding`` is read-only, except through its pickled state, which is JSON.
    """
    if not any(marks):
        return encoding
    state = json.loads(encoding.__getstate__())
    _repair_state(state, marks, words=words)
    repaired = Encoding()
    repaired.__setstate__(json.dumps(state).encode())
    return repaired


def _repair_state(state: dict[str, Any], marks: list[list[int]], *, words: bool) -> None:
    ranges = state["sequence_ranges"] or {"0": {"start": 0, "end": len(state["ids"])}}
    for sequence, span in ranges.items():
        inserted = marks[int(sequence)]
        for index in range(span["start"], span["end"]):
            (start, end), word = state["offsets"][index], state["words"][index]
            if word is None:
                continue
            position = word if words else start
            before = bisect_left(inserted, position)
            shift = 0 if words else before * len(SENTENCE)
            if before < len(inserted) and inserted[before] == position:
                state["words"][index], state["special_tokens_mask"][index] = None, 1
                state["offsets"][index] = [0, 0] if words else [start - shift] * 2
            else:
                state["words"][index], state["offsets"][index] = word - before, [start - shift, end - shift]
    for overflow in state["overflowing"]:
        _repair_state(overflow, marks, words=words)
