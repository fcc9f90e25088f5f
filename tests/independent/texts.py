"""Texts and a tokenizer for tiny models: the word "w17" is the id 17, between a start and an end token."""

from __future__ import annotations

import random
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

START, PAD, END, UNKNOWN, MASK = range(5)  # the ids that every tiny model has
FIRST, SIZE = 10, 99  # ids of words; some families reserve 5 to 7
SPECIAL = {START: "<s>", PAD: "<pad>", END: "</s>", UNKNOWN: "<unk>", MASK: "<mask>"}
LENGTHS = (23, 14, 11, 9, 9, 6, 5, 4)
"""With both special tokens; the windows of tiny models are 8 tokens wide."""


def tokenizer_of(side: str) -> PreTrainedTokenizerFast:
    """One for all families; it pads on the given side."""
    words = {SPECIAL.get(number, f"w{number}"): number for number in range(SIZE)}
    backend = Tokenizer(models.WordLevel(words, unk_token=SPECIAL[UNKNOWN]))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = [(SPECIAL[number], number) for number in (START, END)]
    backend.post_processor = processors.TemplateProcessing(
        single=f"{SPECIAL[START]} $A {SPECIAL[END]}", special_tokens=special
    )
    names = {"bos": START, "cls": START, "eos": END, "sep": END, "pad": PAD, "unk": UNKNOWN, "mask": MASK}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        padding_side=side,
        model_input_names=["input_ids", "attention_mask"],
        **{f"{name}_token": SPECIAL[number] for name, number in names.items()},
    )


def rows_of(lengths: tuple[int, ...] = LENGTHS, seed: int = 0) -> list[dict[str, Any]]:
    """Texts, each with a score for every token: the column "given" is a ranking of somebody's own."""
    draw = random.Random(seed)
    rows = []
    for length in lengths:
        words = [f"w{draw.randrange(FIRST, SIZE)}" for _ in range(length - 2)]
        rows.append({"text": " ".join(words), "given": [draw.random() for _ in range(length)]})
    return rows


def ids_of(row: dict[str, Any]) -> list[int]:
    """What the tokenizer makes of a text, without it."""
    return [START, *(int(word[1:]) for word in row["text"].split()), END]
