"""Pretrained word vectors: reading them, loading them into a model, and training them on your own texts."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from attnfaith.errors import InputError
from attnfaith.validation import short_repr

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class WordVectors:
    """Words and their vectors: ``matrix`` [V, E] float32 has one row for each word."""

    words: list[str]
    matrix: np.ndarray

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2 or len(self.words) != len(self.matrix):
            raise InputError(
                f"{len(self.words)} words and a matrix of shape {self.matrix.shape}; expected one row a word."
            )
        if not np.isfinite(self.matrix).all():
            raise InputError("The word vectors contain NaN or infinity.")


@dataclass(frozen=True)
class Coverage:
    """How many words of a tokenizer have a pretrained vector, and which do not."""

    found: int
    missing: list[str]

    def __str__(self) -> str:
        total = self.found + len(self.missing)
        return f"{self.found} of {total} words ({self.found / max(total, 1):.1%}) have a pretrained vector"


def load_vectors(
    path: str | Path, words: str | Path | None = None, *, only: Container[str] | None = None
) -> WordVectors:
    """Read word vectors from GloVe or word2vec text files (also ``.gz``), or from a ``.npy`` file with a word list.

    Args:
        path: a text file with one word and its numbers in each line (a first line "count size" is skipped), or a
            ``.npy`` matrix [V, E].
        words: for ``.npy``, a text file with one word in each line.
        only: keep only these words, for example ``tokenizer.get_vocab()``, so that a large file takes little memory.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"There is no file {str(path)!r} to read word vectors from.", code="data-not-found")
    if path.suffix == ".npy":
        if words is None:
            raise InputError(f"{path.name} holds numbers alone; pass words=, a file with one word a line.")
        # not splitlines(), which also splits at characters that are words in some vocabularies
        with _read_errors(Path(words)):
            names = Path(words).read_text(encoding="utf-8").removesuffix("\n").split("\n")
        with _read_errors(path):
            matrix = np.load(path, allow_pickle=False).astype(np.float32, copy=False)
        vectors = WordVectors(names, matrix)
        indices = [index for index, word in enumerate(names) if only is None or word in only]
        return WordVectors([names[index] for index in indices], vectors.matrix[indices])
    rows: dict[str, np.ndarray] = {}
    with _read_errors(path):
        for word, numbers in _lines(path):
            if (only is None or word in only) and word not in rows:
                rows[word] = numbers
    size = len(next(iter(rows.values()))) if rows else 0
    return WordVectors(list(rows), np.stack(list(rows.values())) if rows else np.zeros((0, size), np.float32))


@contextmanager
def _read_errors(path: Path) -> Iterator[None]:
    """Turn errors of reading a file (missing, not UTF-8, a broken archive, pickled objects) into `InputError`."""
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise InputError(
            f"{str(path)!r} cannot be read: {error}. Expected word vectors as text (UTF-8) or as a matrix of numbers "
            "in a .npy file.",
            code="unreadable-data",
        ) from error


def _lines(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    opener = gzip.open if path.suffix == ".gz" else open
    size = None
    with opener(path, "rt", encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            fields = line.rstrip().split(" ")
            if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
                size = int(fields[1])
                continue
            size = len(fields) - 1 if size is None else size
            # Some words of GloVe's larger files contain spaces, so the numbers are counted from the end of the line.
            try:
                vector = np.array(fields[-size:], dtype=np.float32)
            except ValueError:
                vector = np.zeros(0, np.float32)
            if size < 1 or len(fields) <= size or len(vector) != size:
                raise InputError(
                    f"{path.name}, line {number}: expected a word and {size if size > 0 else 'its'} numbers, got "
                    f"{short_repr(line)}."
                )
            yield " ".join(fields[:-size]), vector


def place_vectors(weight: Tensor, tokenizer: PreTrainedTokenizerBase, vectors: WordVectors) -> Coverage:
    """Write vectors into the rows of an embedding ``weight`` [V, E]; words are looked up as is, then in lower case."""
    if vectors.matrix.shape[1] != weight.shape[1]:
        raise InputError(
            f"The vectors have {vectors.matrix.shape[1]} numbers, the model's embeddings {weight.shape[1]}; "
            f"build the model with embedding_size={vectors.matrix.shape[1]}."
        )
    row = {word: index for index, word in reversed(list(enumerate(vectors.words)))}  # the first of equal words counts
    special = set(tokenizer.all_special_tokens)
    ids, rows, missing = [], [], []
    for word, index in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]):
        if word in special:
            continue
        if index >= len(weight):
            raise InputError(
                f"The tokenizer has {len(tokenizer)} words, the model {len(weight)}; they do not belong together.",
                code="wrong-tokenizer",
            )
        source = row.get(word, row.get(word.lower()))
        if source is None:
            missing.append(word)
        else:
            ids.append(index)
            rows.append(source)
    with torch.no_grad():
        weight[ids] = torch.from_numpy(vectors.matrix[rows]).to(weight)
    return Coverage(len(ids), missing)


def train_vectors(
    texts: Iterable[str],
    tokenizer: PreTrainedTokenizerBase,
    *,
    size: int = 200,
    window: int = 5,
    batch: int = 1000,
    seed: int = 0,
) -> WordVectors:
    """Train word vectors on your own texts: truncated SVD of positive pointwise mutual information.

    It is deterministic, and fast for vocabularies of up to some ten thousand words. The papers used word2vec's
    skip-gram on their training texts, which implicitly factorises a shifted version of the same matrix (Levy & Goldberg
    2014): a similar method with other numbers. For word2vec itself, use gensim on the tokenizer's words::

        model = gensim.models.Word2Vec([tokenizer.tokenize(text) for text in texts], vector_size=200, min_count=5)
        model.wv.save_word2vec_format("vectors.txt")
        load_vectors("vectors.txt")
    """
    from scipy import sparse  # type: ignore[import-untyped]
    from scipy.sparse.linalg import svds  # type: ignore[import-untyped]

    counts = sparse.csr_matrix((len(tokenizer), len(tokenizer)))
    texts = list(texts)
    for start in range(0, len(texts), batch):
        lines = tokenizer(texts[start : start + batch], return_attention_mask=False)["input_ids"]
        gap = np.full(window, -1)  # words of different texts are no neighbours
        line = np.concatenate([part for ids in lines for part in (np.asarray(ids, dtype=np.int64), gap)])
        for distance in range(1, window + 1):
            left, right = line[:-distance], line[distance:]
            real = (left >= 0) & (right >= 0)
            pair = (np.ones(real.sum()), (left[real], right[real]))
            counts = counts + sparse.csr_matrix(pair, shape=counts.shape)
    ordinary = np.ones(len(tokenizer))
    ordinary[tokenizer.all_special_ids] = 0
    counts = (sparse.diags(ordinary) @ (counts + counts.T) @ sparse.diags(ordinary)).tocoo()
    margin = np.asarray(counts.sum(axis=0)).ravel()
    word_ids = np.flatnonzero(margin)
    if len(word_ids) <= size:
        raise InputError(
            f"The texts have {len(word_ids)} known words, too few for vectors of size {size}; choose a smaller size."
        )
    entry = counts.data > 0
    row, col, data = counts.row[entry], counts.col[entry], counts.data[entry]
    information = np.log(data * margin.sum() / (margin[row] * margin[col])).clip(min=0)
    matrix = sparse.csr_matrix((information, (row, col)), shape=counts.shape)[word_ids][:, word_ids]
    first = np.random.default_rng(seed).standard_normal(len(word_ids))  # as svds draws it, in every version of scipy
    left, value, _ = svds(matrix, k=size, v0=first)
    vectors = left * np.sqrt(value)
    words = list(tokenizer.convert_ids_to_tokens(word_ids.tolist()))
    return WordVectors(words, (vectors / vectors.std()).astype(np.float32) * 0.1)
