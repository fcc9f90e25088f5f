"""What eight small runs give, kept in a folder and compared later: a guard while code is moved.

python -m tests.recording keep FOLDER
python -m tests.recording compare FOLDER FOLDER

Tables must be equal to the bit, estimates up to the order in which a sum is taken (a relative 1e-12). A comparison may
gain rows. Sentences that differ are printed, and do not fail.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pandas as pd
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

import attnfaith as af
from attnfaith.evaluation import comparison
from attnfaith.tiny_models import tiny_model
from tests.helpers import commands
from tests.helpers.small_runs import QUICK, evaluator_of

ROWS = [
    {"text": text, "label": int("fine" in text), "marks": [int(word == "fine") for word in text.split()]}
    for text in commands.texts(40)
]
SENTENCES = [
    {"text": ". ".join(texts) + "."}
    for texts in zip(*(commands.texts(30, seed=seed) for seed in range(3)), strict=True)
]
PAIRS = [
    {"text": first, "other": other} for first, other in zip(commands.texts(24), commands.texts(24, seed=5), strict=True)
]
KEY = ["test", "erase_level", "ranking", "ranking_level", "figure"]
CLOSE = {"rtol": 1e-12, "atol": 1e-14}


def words():
    """A word for each id, and the ids of special tokens that every tiny model has: no training that breaks ties."""
    vocabulary = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4}
    vocabulary |= {word: number for number, word in enumerate(commands.WORDS, start=10)}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = {"bos": "<s>", "cls": "<s>", "eos": "</s>", "sep": "</s>", "pad": "<pad>", "unk": "<unk>", "mask": "<mask>"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **{f"{name}_token": item for name, item in names.items()})


def letters(encoded):
    """A ranking of a user's."""
    return [float(len(token)) for token in encoded.tokens]


def runs(folder: Path):
    """Each run by name: an evaluator, data, and options."""
    marked = {"rationale_column": "marks", "explanations": {"letters": letters}}
    yield "flan", af.Evaluator(commands.save_flan(folder / "flan")), ROWS, marked
    yield "flan-other", af.Evaluator(commands.save_flan(folder / "flan-other", seed=1)), ROWS, marked
    yield "han", af.Evaluator(commands.save_han(folder / "han")), SENTENCES, {}
    for family in ("bert", "llama", "t5"):
        evaluator = af.Evaluator(tiny_model(family), words())
        yield family, evaluator, ROWS[:24], {**marked, "level": "both", "steps": 4}
    for kind in ("multilabel", "regression"):
        evaluator, data = evaluator_of(kind)
        yield kind, evaluator, data, {}
    pairs = af.Evaluator(tiny_model("bert"), words())
    yield "pairs", pairs, PAIRS, {"second_input_column": "other", "level": "both", "steps": 4}


def keep(folder: Path) -> None:
    """Run everything and write what it gives."""
    folder.mkdir(parents=True)
    stored = {}
    for name, evaluator, data, options in runs(folder / "models"):
        tests = [test for test in QUICK.values() if test.name != "rationales" or "rationale_column" in options]
        common = {"rankings": "all", "n_resamples": 99, "quiet": True, "batch_size": 8}
        results = evaluator.compute(data, tests=tests, **common, **options)
        for table in results.tables:
            results.table(table).to_parquet(folder / f"{name}.table.{table}.parquet")
        results.summary().to_parquet(folder / f"{name}.summary.parquet")
        results.summary(by="length").to_parquet(folder / f"{name}.by-length.parquet")
        results.curves().to_parquet(folder / f"{name}.curves.parquet")
        (folder / f"{name}.txt").write_text(str(results), encoding="utf-8")
        stored[name] = results
        print(name, flush=True)
    tables = [
        {name: results.table(name) for name in results.tables} for results in (stored["flan"], stored["flan-other"])
    ]
    comparison.compare(*tables, paired=True, n_resamples=99).to_parquet(folder / "comparison.parquet")


def compare(first: Path, second: Path) -> int:
    """The number of files that differ."""
    names = [sorted(path.name for path in folder.glob("*.*")) for folder in (first, second)]
    wrong = len(set(names[0]) ^ set(names[1]))
    print("only in one:", sorted(set(names[0]) ^ set(names[1])))
    for name in sorted(set(names[0]) & set(names[1])):
        if name.endswith(".parquet"):
            left, other = (pd.read_parquet(folder / name) for folder in (first, second))
            exact = ".table." in name
            if name == "comparison.parquet":
                other = left[KEY].merge(other, on=KEY, how="left")
            try:
                pd.testing.assert_frame_equal(left, other, check_exact=exact, **({} if exact else CLOSE))
            except AssertionError as error:
                wrong += 1
                print(f"{name}: {' '.join(str(error).split())[:300]}")
        elif (first / name).read_text() != (second / name).read_text():
            print(f"{name}: other sentences")
    print(f"{wrong} differ")
    return wrong


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    what, *folders = sys.argv[1:]
    sys.exit(keep(Path(folders[0])) if what == "keep" else min(1, compare(*map(Path, folders))))
