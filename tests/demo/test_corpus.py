"""The generated reviews: what decides does, what does not does not, and nothing repeats."""

import hashlib
import itertools
import math
import re
import subprocess
import sys
from collections import Counter

import pytest
import torch
import torch.nn.functional as F

import attnfaith as af
from attnfaith.demo import lexicon
from attnfaith.demo.corpus import STRENGTHS, Review, label_of, planted_scores, reviews, short_reviews
from attnfaith.demo.review_writer import KeyedRandom
from attnfaith.errors import InputError

MANY = reviews(3000)


def test_a_review_depends_on_seed_and_number_alone():
    assert reviews(120) == MANY[:120]
    assert reviews(7) == MANY[:7]
    assert reviews(0) == []
    other = reviews(120, seed=1)
    assert not {review["text"] for review in other} & {review["text"] for review in MANY}
    # in another process, with other hashes: the order of sets must not matter
    program = "from attnfaith.demo.corpus import reviews; print(reviews(40, seed=3)[39]['text'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == reviews(40, seed=3)[39]["text"], done.stderr


def test_the_corpus_is_the_one_that_was_published():
    """Numbers computed on it stay comparable; a change belongs under "Changed results" in the changelog."""
    assert MANY[12]["text"] == (
        "My previous vacuum cleaner turned out poor. To be fair, even after weeks this vacuum cleaner is weak."
    )
    texts = "\n".join(review["text"] for review in MANY)
    assert hashlib.sha256(texts.encode()).hexdigest()[:16] == "8f8279c064ffb06d"


def test_classes_are_balanced_in_every_five():
    for at in range(0, 3000, 5):
        assert sorted(review["label"] for review in MANY[at : at + 5]) == [0, 1, 2, 3, 4]
    orders = Counter(tuple(review["label"] for review in MANY[at : at + 5]) for at in range(0, 3000, 5))
    assert len(orders) > 110  # of 120


def test_no_text_comes_twice():
    texts = [review["text"] for review in reviews(10000)]
    assert len(set(texts)) == len(texts)


def test_a_repeated_text_is_replaced(monkeypatch):
    from attnfaith.demo import corpus

    class Poor:
        """Has two texts for each label."""

        def __init__(self, draws):
            self.draws = draws

        def review(self, strength):
            return f"{strength} {self.draws.pick('ab')}"

    monkeypatch.setattr(corpus, "Writer", Poor)
    assert {review["text"] for review in corpus.reviews(10)} == {f"{n} {x}" for n in range(-2, 3) for x in "ab"}


def test_ranges_cover_the_decisive_words():
    for review in MANY:
        assert review["words"]
        assert [review["text"][start:end] for start, end in review["ranges"]] == review["words"]
        ends = [index for span in review["ranges"] for index in span]
        assert ends == sorted(ends)
        for start, end in review["ranges"]:
            assert review["text"][start:end].isalpha()
            assert not (review["text"][start - 1 : start] + review["text"][end : end + 1]).strip(" ,.;!-\"'")


def test_decisive_words_decide_and_none_can_be_spared():
    for review in MANY:
        words = review["words"]
        assert label_of(words) == review["label"]
        for index in range(len(words)):
            assert label_of(words[:index] + words[index + 1 :]) != review["label"]


def split(words):
    """All ways to cut words into clauses of the table, with their sums: the rule's slow twin."""
    if not words:
        yield ()
    for size in range(1, len(words) + 1):
        if tuple(words[:size]) in STRENGTHS:
            for rest in split(words[size:]):
                yield (STRENGTHS[tuple(words[:size])], *rest)


def test_the_rule_reads_words_in_one_way_only():
    for review in MANY:
        ways = {strengths for strengths in split([word.lower() for word in review["words"]]) if len(strengths) <= 2}
        assert len(ways) == 1
        (strengths,) = ways
        assert review["label"] == sum(strengths) + 2
        assert len(strengths) == 1 or min(strengths) < 0 < max(strengths)


def test_the_table_is_what_the_documentation_says():
    assert STRENGTHS[("superb",)] == 2
    assert STRENGTHS[("bad",)] == -1
    assert STRENGTHS["very", "bad"] == -2
    assert STRENGTHS["not", "bad"] == 1
    assert STRENGTHS["not", "good"] == -1
    assert STRENGTHS["worth", "penny"] == 2
    assert STRENGTHS["not", "worth", "penny"] == -2
    assert ("very", "superb") not in STRENGTHS
    assert set(STRENGTHS.values()) == {-2, -1, 0, 1, 2}
    for strength, words in lexicon.OPINIONS.items():
        for word in words:
            assert label_of([word]) == strength + 2
            assert (label_of(["not", word]) == 2 - strength) == (abs(strength) == 1)
    assert label_of([]) is None
    assert label_of(["very"]) is None
    assert label_of(["good", "chair"]) is None
    assert label_of(["superb", "superb"]) is None  # six stars


def sentences_of(text):
    return re.split(r'(?<=[.!?]) |(?<=[.!?]") ', text)


def without_verdict(review):
    """The sentences that hold no decisive word."""
    kept, start = [], 0
    for sentence in sentences_of(review["text"]):
        end = start + len(sentence)
        if not any(start <= index < end for index, _ in review["ranges"]):
            kept.append(sentence)
        start = end + 1
    return " ".join(kept)


def test_every_deciding_word_and_clause_also_stands_where_it_does_not_decide():
    others = [words_of(without_verdict(review)) for review in MANY]
    seen = Counter(word for words in others for word in set(words))
    for clause in STRENGTHS:
        for word in clause:
            assert seen[word] >= 20, word
    for review in MANY:
        assert set(words_of(" ".join(review["words"]))) <= set(seen)
    for clause in STRENGTHS:  # in its order, within one text
        assert any(set(clause) <= set(words) for words in others), clause


def words_of(text):
    return re.findall(r"\w+", text.lower())


def test_reviews_are_varied():
    lengths = Counter(len(sentences_of(review["text"])) for review in MANY)
    assert set(lengths) == {2, 3, 4, 5, 6, 7, 8}
    assert min(lengths.values()) > 100
    quarters = Counter()
    for review in MANY:
        index = review["ranges"][0][0] / len(review["text"])
        quarters[int(4 * index)] += 1
    assert min(quarters.values()) > 300  # the verdict may stand anywhere
    assert 250 < len({word for review in MANY for word in words_of(review["text"])}) < 500
    for mark in "\"!?;:()-'":
        assert sum(mark in review["text"] for review in MANY) > 50, mark
    assert {len(review["words"]) for review in MANY} >= {1, 2, 3, 4}
    assert max(Counter(sentence for review in MANY for sentence in sentences_of(review["text"])).values()) < 150


def test_reviews_are_clean_english():
    for review in MANY:
        text = review["text"]
        assert text.strip() == text
        assert not re.search(r"[\[\]{}]|  | [,.;:!?]|[,;:!?.]{2}|\bit it\b", text), text
        for sentence in sentences_of(text):
            assert sentence[0].isupper() or (sentence[0] == '"' and sentence[1].isupper()), sentence
            assert re.search(r'[.!?]"?$', sentence), sentence
        vowel = re.findall(r"\b(an?) ([a-z])", text, re.IGNORECASE)
        assert all((article.lower() == "an") == (letter in "aeiou") for article, letter in vowel), text


def test_it_stands_for_the_product_named_before():
    asides = re.compile(r"got it\b|gave it to|needs it in")
    another = re.compile(r"\b(old|previous|the one from|cheaper|same order|their|courier|website|hotline|wrapping)\b")
    followed = 0
    for review in MANY:
        sentences = [asides.sub("", sentence) for sentence in sentences_of(review["text"])]
        assert not re.search(r"\bit\b", sentences[0], re.IGNORECASE), review["text"]
        for before, sentence in itertools.pairwise(sentences):
            if re.search(r"\bit\b", sentence, re.IGNORECASE):
                followed += 1
                assert not another.search(before), review["text"]
    assert followed > 800


def test_the_word_tokenizer_finds_the_same_sentences():
    """So a HAN's items are the sentences as they were written."""
    tokenizer = af.models.WordTokenizer.train([review["text"] for review in MANY], min_count=1, sentences=True)
    for review in MANY[:600]:
        ids = tokenizer(review["text"])["input_ids"]
        assert ids.count(tokenizer.sentence_token_id) + 1 == len(sentences_of(review["text"])), review["text"]


def bag_of_words_accuracy(texts, labels, train, bigrams=False):
    """Of a logistic regression on word counts, trained to convergence on the first ``train`` texts."""
    bags = []
    for text in texts:
        words = words_of(text)
        bags.append(Counter(words + [" ".join(pair) for pair in itertools.pairwise(words)] * bigrams))
    total = Counter(word for bag in bags[:train] for word in bag)
    known = sorted(word for word in total if total[word] >= 5)
    index = {word: position for position, word in enumerate(known)}
    counts = torch.zeros(len(texts), len(known))
    for row, bag in enumerate(bags):
        for word, count in bag.items():
            if word in index:
                counts[row, index[word]] = count
    target = torch.tensor(labels)
    weight = torch.zeros(len(known), 5, requires_grad=True)
    bias = torch.zeros(5, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=100, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        value = F.cross_entropy(counts[:train] @ weight + bias, target[:train]) + 1e-3 * weight.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    with torch.no_grad():
        return float(((counts[train:] @ weight + bias).argmax(-1) == target[train:]).float().mean())


@pytest.mark.parametrize("bigrams", [False, True])
def test_words_alone_do_not_tell_the_stars(bigrams):
    texts, labels = [review["text"] for review in MANY], [review["label"] for review in MANY]
    assert 0.3 < bag_of_words_accuracy(texts, labels, 2400, bigrams) < 0.65


def test_how_decisive_words_combine_matters():
    """A sum of words is fooled by "not" and by pairs; word pairs help."""
    texts, labels = [" ".join(review["words"]) for review in MANY], [review["label"] for review in MANY]
    assert 0.6 < bag_of_words_accuracy(texts, labels, 2400) < 0.9
    assert bag_of_words_accuracy(texts, labels, 2400, bigrams=True) > 0.85


def test_what_does_not_decide_says_nothing():
    texts, labels = [without_verdict(review) for review in MANY], [review["label"] for review in MANY]
    chance, texts_tested = 0.2, 600
    accuracy = bag_of_words_accuracy(texts, labels, 2400)
    assert abs(accuracy - chance) < 4 * math.sqrt(chance * (1 - chance) / texts_tested)


def test_planted_scores_by_token_and_by_sentence():
    tokenizer = af.models.WordTokenizer.train([review["text"] for review in MANY], min_count=1, sentences=True)
    for review in MANY[:200]:
        encoded = tokenizer(review["text"], return_offsets_mapping=True)
        offsets = encoded["offset_mapping"]
        scores = planted_scores(review, offsets)
        assert len(scores) == len(offsets)
        result = [review["text"][slice(*span)] for span, score in zip(offsets, scores, strict=True) if score]
        assert result == review["words"]
        assert set(scores) == {0.0, 1.0}
        at, spans = 0, []
        for sentence in sentences_of(review["text"]):
            spans.append((at, at + len(sentence)))
            at += len(sentence) + 1
        holding = [score for score in planted_scores(review, spans) if score]
        assert 1 <= len(holding) <= 2
    review = Review(text="Not bad", label=3, words=["Not", "bad"], ranges=[(0, 3), (4, 7)])
    pieces = [(0, 0), (0, 2), (2, 3), (3, 4), (3, 5), (7, 9), None]
    assert planted_scores(review, pieces) == [0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0]


def test_rows_are_data_as_they_are():
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_list(reviews(6))
    assert data["text"][:] == [review["text"] for review in MANY[:6]]
    assert data["label"][:] == [review["label"] for review in MANY[:6]]


def test_draws_are_keyed_and_fair():
    assert KeyedRandom(0, 1).shuffle(range(9)) == KeyedRandom(0, 1).shuffle(range(9))
    assert KeyedRandom(0, 1).shuffle(range(9)) != KeyedRandom(0, 2).shuffle(range(9))
    picked = Counter(KeyedRandom("fair", number).pick("abcd") for number in range(4000))
    assert all(abs(count - 1000) < 110 for count in picked.values())
    firsts = Counter(KeyedRandom("fair", number).shuffle("abcd")[0] for number in range(4000))
    assert all(abs(count - 1000) < 110 for count in firsts.values())
    assert abs(sum(KeyedRandom("chance", number).chance(0.3) for number in range(4000)) - 1200) < 120


@pytest.mark.parametrize("count", [-1, 2.5, "10", True, None])
def test_bad_counts_are_refused(count):
    with pytest.raises(InputError, match="whole number"):
        reviews(count)


def test_short_reviews_are_those_of_the_corpus():
    corpus = [row for row in reviews(1500) if len(row["text"]) <= 160 and '"' not in row["text"]]
    two = [{**row, "label": int(row["label"] > 2)} for row in corpus if row["label"] != 2]
    three = [{**row, "label": (0, 0, 1, 2, 2)[row["label"]]} for row in corpus]
    assert len(two) > 100
    assert short_reviews(len(two)) == two
    assert short_reviews(len(three), classes=3) == three
    assert short_reviews(5, seed=1) != two[:5]
    for wrong in ({"classes": 4}, {"count": -1}, {"count": 2.0}):
        with pytest.raises(InputError):
            short_reviews(**{"count": 1, **wrong})
