"""Explanations made up for the tests, their tokenizers, and a reader of their HTML."""

import itertools
from collections import Counter
from html.parser import HTMLParser

import torch
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers import models as backends
from transformers import PreTrainedTokenizerFast

import attnfaith as af
from attnfaith.attribution.explanation import Explanation
from attnfaith.text.encoder import TextEncoder

TEXT = "A thin plot, a <b>superb</b> cast. I would & will see it again!"
PAIR = ("A man plays guitar.", "Nobody plays. It is quiet.")
CORPUS = [TEXT, *PAIR]
NAMES = ["[BOS]", "[PAD]", "[EOS]", "[UNK]", "[MASK]"]  # ids as in attnfaith.tiny_models
ROLES = dict(zip("bos_token pad_token eos_token unk_token mask_token".split(), NAMES, strict=True))


def learned_pieces(backend, texts, vocab_size, mark="", alphabet=()):
    """The vocabulary and the merges that byte-pair encoding learns; the trainers of `tokenizers` break ties at random.

    ``mark`` begins each piece inside a word.
    """
    counted = Counter()
    for text in texts:
        normal = text if backend.normalizer is None else backend.normalizer.normalize_str(text)
        counted.update(word for word, _ in backend.pre_tokenizer.pre_tokenize_str(normal))
    splits = {word: [word[0], *(mark + char for char in word[1:])] for word in counted}
    single = {*alphabet, *"".join(splits), *(piece for split in splits.values() for piece in split)}
    pieces = [*NAMES, *sorted(single)]
    merges = []
    while len(pieces) < vocab_size:
        pairs = Counter()
        for word, split in splits.items():
            for pair in itertools.pairwise(split):
                pairs[pair] += counted[word]
        if not pairs:
            break
        left, right = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append((left, right))
        pieces.append(left + right.removeprefix(mark))
        for split in splits.values():
            for index in range(len(split) - 2, -1, -1):
                if split[index : index + 2] == [left, right]:
                    split[index : index + 2] = [pieces[-1]]
    return {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}, merges


def fast(backend, wrapped=True):
    """A fast tokenizer from a backend, wrapped in [BOS] and [EOS] or not."""
    if wrapped:
        backend.post_processor = processors.TemplateProcessing(
            single="[BOS] $A [EOS]",
            pair="[BOS] $A [EOS] $B:1 [EOS]:1",
            special_tokens=[("[BOS]", 0), ("[EOS]", 2)],
        )
    names = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_input_names=names, **ROLES)


def word_piece(texts=CORPUS, vocab_size=80):
    backend = Tokenizer(backends.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    vocabulary, _ = learned_pieces(backend, texts, vocab_size, mark="##")
    backend.model = backends.WordPiece(vocabulary, unk_token="[UNK]")
    return fast(backend)


def byte_level():
    """As GPT-2's, but with the bytes of these few texts only, to fit the tiny families."""
    backend = Tokenizer(backends.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.model = backends.BPE(*learned_pieces(backend, [*CORPUS, "👍🏽"], vocab_size=90))
    return PreTrainedTokenizerFast(tokenizer_object=backend, **ROLES)


def words(sentences=False):
    return af.models.WordTokenizer.train(CORPUS, min_count=1, sentences=sentences)


def explain(text=TEXT, tokenizer=None, scores=None, max_length=None, **facts):
    """An explanation with scores made up: of random size, half of them negative."""
    (encoded,) = TextEncoder(tokenizer or word_piece(), torch.nn.Identity(), max_length).encode([text])
    if scores is None:
        draws = torch.randn(len(encoded.ids), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        scores = draws.tolist()
    known = {"unit": "token", "method": "lrp", "level": "input", "signed": True, "output": "log_odds"}
    known |= {"prediction": "good", "target": "good", "probability": 0.75, "target_probability": 0.75}
    spans = tuple((index, index + 1) for index in range(len(encoded.ids)))
    return Explanation(encoded=encoded, spans=spans, scores=tuple(scores), **(known | facts))


class Reader(HTMLParser):
    """All texts, those of each block that holds an original, and whether every tag was closed."""

    def __init__(self, html):
        super().__init__()
        self.open, self.blocks, self.tags, self.texts = [], [], set(), []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        if tag != "br":
            self.open.append((tag, dict(attributes).get("dir")))
            if self.open[-1][1] == "auto":
                self.blocks.append("")

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        self.texts.append(data)
        if any(direction == "auto" for _, direction in self.open):
            self.blocks[-1] += data
