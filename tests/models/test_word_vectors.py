"""Word vectors: read from the usual files, written to the right words, trained on texts."""

import gzip

import numpy as np
import pytest
import torch

import attnfaith.models as models
from attnfaith.errors import InputError

WORDS = {"good": [1, 2, 3], "bad": [-1, -2, -3.5], "Film": [0.25, 0, 1e-3], ". . .": [9, 9, 9]}
LINES = "".join(f"{word} {' '.join(map(str, numbers))}\n" for word, numbers in WORDS.items())


@pytest.fixture(params=["glove.txt", "word2vec.txt", "glove.txt.gz", "matrix.npy"])
def files(request, tmp_path):
    path = tmp_path / request.param
    if request.param.endswith(".npy"):
        np.save(path, np.array(list(WORDS.values())))
        (tmp_path / "words.txt").write_text("\n".join(WORDS), encoding="utf-8")
        return path, tmp_path / "words.txt"
    text = ("4 3\n" if request.param.startswith("word2vec") else "") + LINES
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path, None


def test_every_format_reads_the_same(files):
    vectors = models.load_vectors(*files)
    assert vectors.words == list(WORDS)
    assert vectors.matrix.dtype == np.float32
    np.testing.assert_allclose(vectors.matrix, list(WORDS.values()))
    some = models.load_vectors(*files, only={"bad", "Film"})
    assert some.words == ["bad", "Film"]
    np.testing.assert_allclose(some.matrix, [WORDS["bad"], WORDS["Film"]])


def test_vectors_are_written_to_their_words_only(files):
    tokenizer = models.WordTokenizer.train(["good bad zebra Good film"], min_count=1, lowercase=False)
    model = models.from_preset("FLANnoenc", vocab_size=len(tokenizer), embedding_size=3)
    before = model.embeddings.weight.detach().clone()
    coverage = model.set_word_vectors(tokenizer, models.load_vectors(*files))
    after = model.embeddings.weight
    vocabulary = tokenizer.get_vocab()
    for word in ("good", "bad"):
        assert after[vocabulary[word]].tolist() == pytest.approx(WORDS[word])
    assert after[vocabulary["Good"]].tolist() == pytest.approx(WORDS["good"])  # by its lower case
    kept = [vocabulary["zebra"], vocabulary["film"], 0, 1, 2, 3]
    assert after[kept].equal(before[kept])
    assert (coverage.found, sorted(coverage.missing)) == (3, ["film", "zebra"])
    assert str(coverage) == "3 of 5 words (60.0%) have a pretrained vector"
    assert after.requires_grad
    model.set_word_vectors(tokenizer, models.load_vectors(*files), freeze=True)
    assert not model.embeddings.weight.requires_grad


def test_trained_vectors_of_similar_words_are_close():
    rng = np.random.default_rng(0)
    groups = [["cat", "dog", "cow"], ["red", "blue", "green"]]
    texts = [
        f"the {rng.choice(groups[i % 2])} {('runs', 'paint')[i % 2]} {rng.choice(groups[i % 2])}" for i in range(400)
    ]
    tokenizer = models.WordTokenizer.train(texts, min_count=1)
    vectors = models.train_vectors(texts, tokenizer, size=3, window=2, batch=37)
    again = models.train_vectors(texts, tokenizer, size=3, window=2)
    assert vectors.words == again.words
    np.testing.assert_allclose(vectors.matrix, again.matrix, atol=1e-5)
    unit = vectors.matrix / np.linalg.norm(vectors.matrix, axis=1, keepdims=True)
    row = {word: unit[i] for i, word in enumerate(vectors.words)}
    for group in groups[0]:
        assert min(row[group] @ row[other] for other in groups[0]) > max(row[group] @ row[other] for other in groups[1])
    model = models.from_preset("FLANnoenc", vocab_size=len(tokenizer), embedding_size=3)
    assert model.set_word_vectors(tokenizer, vectors).missing == []
    assert torch.equal(model.embeddings.weight[4:].detach(), torch.from_numpy(vectors.matrix))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("good 1 2 3\nbad 1 2\n", "line 2"),
        ("good 1 2 3\nbad 1 x 3\n", "line 2"),
        ("good 1 nan 3\n", "NaN"),
        ("2 3\nbad 1\n", "line 2"),
    ],
)
def test_bad_files_are_refused(text, says, tmp_path):
    (tmp_path / "vectors.txt").write_text(text)
    with pytest.raises(InputError, match=says):
        models.load_vectors(tmp_path / "vectors.txt")


def test_bad_input_is_refused(files, tmp_path):
    tokenizer = models.WordTokenizer.train(["good bad"], min_count=1)
    with pytest.raises(InputError, match="embedding_size=3"):
        models.from_preset("FLANnoenc", vocab_size=6).set_word_vectors(tokenizer, models.load_vectors(*files))
    with pytest.raises(InputError, match="no file"):
        models.load_vectors(tmp_path / "nothing.txt")
    with pytest.raises(InputError, match="do not belong together"):
        models.from_preset("FLANnoenc", vocab_size=5, embedding_size=3).set_word_vectors(
            tokenizer, models.load_vectors(*files)
        )
    with pytest.raises(InputError, match="too few"):
        models.train_vectors(["good bad"], tokenizer, size=50)
    np.save(tmp_path / "alone.npy", np.zeros((2, 3)))
    with pytest.raises(InputError, match="pass words="):
        models.load_vectors(tmp_path / "alone.npy")
    with pytest.raises(InputError, match="one row a word"):
        models.WordVectors(["a"], np.zeros((2, 3)))


def test_files_that_cannot_be_read_are_named(tmp_path):
    words, matrix = tmp_path / "words.txt", tmp_path / "matrix.npy"
    words.write_text("good\nbad\n")
    np.save(matrix, np.array([[1.0], [2.0]]))
    latin, archive, cut, objects = (tmp_path / name for name in ("latin.txt", "no.txt.gz", "cut.txt.gz", "objects.npy"))
    latin.write_bytes("schön 1 2\n".encode("latin-1"))
    archive.write_bytes(b"good 1 2\n")
    cut.write_bytes(gzip.compress(LINES.encode() * 100)[:-20])
    np.save(objects, np.array([{}], dtype=object), allow_pickle=True)
    (tmp_path / "empty.npy").touch()
    bad = [(latin, None), (archive, None), (cut, None), (objects, words), (tmp_path / "empty.npy", words)]
    for path, names in [*bad, (matrix, tmp_path / "none.txt"), (matrix, latin)]:
        named = path.name if (path, names) in bad else names.name
        with pytest.raises(InputError, match=rf"{named}' cannot be read: .+ Expected word vectors"):
            models.load_vectors(path, names)
