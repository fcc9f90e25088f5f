"""Explanations made up for the tests, their tokenizers, and a reader of their HTML."""

from html.parser import HTMLParser

import torch
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors, trainers
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


def fast(backend, trainer, texts, wrapped=True, **more):
    """A fast tokenizer from a backend trained on texts, wrapped in [BOS] and [EOS] or not."""
    backend.train_from_iterator(texts, trainer(special_tokens=NAMES, show_progress=False, **more))
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
    return fast(backend, trainers.WordPieceTrainer, texts, vocab_size=vocab_size)


def byte_level():
    """As GPT-2's, but with the bytes of these few texts only, to fit the tiny families."""
    backend = Tokenizer(backends.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=90, special_tokens=NAMES, show_progress=False)
    backend.train_from_iterator([*CORPUS, "👍🏽"], trainer)
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
