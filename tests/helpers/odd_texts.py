# ruff: noqa: RUF001 (characters that look like others are the point here)
"""Every kind of tokenizer, trained on texts of many scripts; and a model that takes whatever they give."""

import json

import torch
from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, trainers
from tokenizers import models as backends
from transformers import ByT5Tokenizer, CanineTokenizer, CTRLTokenizer, PreTrainedTokenizerFast
from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

import attnfaith as af
from tests.helpers import tokenizers
from tests.helpers.tokenizers import NAMES, ROLES, fast, learned_pieces

TEXTS = {
    "english": "It was good, very good film!  Unforgettable?",
    "inner": "A well-made film can't cost 3.50.",
    "emoji": "Loved it 👍🏽 👩‍👩‍👧 truly ❤️",
    "chinese": "他说你好 他很好",
    "japanese": "とても良い映画",
    "thai": "ที่ดี",
    "hebrew": "שָׁלוֹם עולם, שָׁלוֹם",
    "arabic": "مرحبا بك في الفيلم",
    "hindi": "फिल्म अच्छी है",
    "decomposed": "Cafe\u0301 au lait, tre\u0300s bon",
    "compatible": "ﬁlm ½ of Ⅷ",
    "lines": "One line.\n\n  Another\tone ",
    "persian": "می\u200cخواهم بروم",
    "odd": "<b>&amp; a\u00adb ▁x Ġy ##z @@",
    "turkish": "İstanbul güzel",
}
CORPUS = tuple(TEXTS.values())
SHORT = ("a very good film", "not so very good")  # a vocabulary that the tiny families can hold


class AnyModel(torch.nn.Module):
    """What `Texts` asks of a model, and no more."""

    config = None

    def forward(self, input_ids, attention_mask=None, token_type_ids=None): ...


def word_piece(texts=CORPUS):
    return tokenizers.word_piece(texts, vocab_size=30_000)


def byte_level(wrapped=False):
    backend = Tokenizer(backends.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.model = backends.BPE(*learned_pieces(backend, ["good film very"], vocab_size=275, alphabet=alphabet))
    return fast(backend, wrapped)


def unigram():
    backend = Tokenizer(backends.Unigram())
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(special_tokens=NAMES, show_progress=False, unk_token="[UNK]", vocab_size=200)
    backend.train_from_iterator(CORPUS, trainer)
    learned = json.loads(backend.to_str())["model"]["vocab"]  # the trainer adds in random order
    pieces = [(piece, round(score, 3)) for piece, score in learned]
    ordered = [*pieces[: len(NAMES)], *sorted(pieces[len(NAMES) :])]
    backend.model = backends.Unigram(ordered, NAMES.index("[UNK]"))
    return fast(backend)


def byte_fallback():
    """As Llama 2's: no pre-tokenizer, so the backend takes the whole text for one word."""
    vocabulary = [*NAMES, "▁", *"goodfilm", "▁film", *(f"<0x{number:02X}>" for number in range(256))]
    numbered = {name: index for index, name in enumerate(dict.fromkeys(vocabulary))}
    backend = Tokenizer(backends.BPE(numbered, [], unk_token="[UNK]", byte_fallback=True, fuse_unk=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return PreTrainedTokenizerFast(tokenizer_object=backend, **ROLES)


def slow_bert(tmp_path, like=None):
    words = (like or word_piece()).get_vocab()
    file = tmp_path / "vocab.txt"
    file.write_text("\n".join(sorted(words, key=words.get)))
    named = {"cls_token": "[BOS]", "sep_token": "[EOS]", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    return BertTokenizerLegacy(str(file), mask_token="[MASK]", **named)


def slow_ctrl(tmp_path):
    """Byte-pair encoding whose tokens end in "@@" within a word; all it knows are letters, and a few pairs."""
    letters = sorted({character for text in TEXTS.values() for character in text if not character.isspace()})
    merges = ["g o", "o d</w>", "f i"]
    names = ["<unk>", *letters, *(f"{letter}@@" for letter in letters), "go@@", "od", "fi@@", "[PAD]"]
    (tmp_path / "vocab.json").write_text(json.dumps({name: index for index, name in enumerate(names)}))
    (tmp_path / "merges.txt").write_text("#version\n" + "\n".join(merges) + "\n")
    return CTRLTokenizer(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"), pad_token="[PAD]")


KINDS = {
    "word_piece": lambda path: word_piece(),
    "byte_level": lambda path: byte_level(),
    "byte_level_wrapped": lambda path: byte_level(wrapped=True),
    "unigram": lambda path: unigram(),
    "byte_fallback": lambda path: byte_fallback(),
    "slow_bert": slow_bert,
    "slow_ctrl": slow_ctrl,
    "canine": lambda path: CanineTokenizer(),
    "byt5": lambda path: ByT5Tokenizer(),
    "words": lambda path: af.models.WordTokenizer.train(TEXTS.values(), min_count=1),
    "sentences": lambda path: af.models.WordTokenizer.train(TEXTS.values(), min_count=1, sentences=True),
}
SLOW = ["slow_bert", "slow_ctrl", "canine", "byt5"]
