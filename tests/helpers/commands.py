"""Models and data on disk, and two ways to run a command: in this process, and in one of its own."""

import csv
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from typer.testing import CliRunner

import attnfaith as af
from attnfaith.cli.app import app
from attnfaith.tiny_models import tiny_model
from tests.helpers import tokenizers

WORDS = "a fine dull film plot cast superb acting long thin with and but the".split()
BOOM = "boom"
"""The word that no model can stand: see `break_word`."""
FEW = ("--resamples", "20")
ROOT = Path(__file__).parents[2]


def texts(count, *, longest=9, seed=0):
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(3, longest))) for _ in range(count)]


def save_flan(folder, *, seed=0):
    """The smallest model there is: no encoder, two classes, "bad" and "good"."""
    tokenizer = af.models.WordTokenizer.train([" ".join([*WORDS, BOOM])], min_count=1)
    torch.manual_seed(seed)
    model = af.models.from_preset("FLANnoenc", num_labels=2, tokenizer=tokenizer)
    spread(model)
    model.config.id2label, model.config.label2id = {0: "bad", 1: "good"}, {"bad": 0, "good": 1}
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_han(folder):
    """The smallest model of sentences."""
    tokenizer = af.models.WordTokenizer.train([" ".join(WORDS)], min_count=1, sentences=True)
    torch.manual_seed(0)
    model = af.models.from_preset("HANnoenc", num_labels=2, tokenizer=tokenizer)
    spread(model)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_bert(folder):
    """A tiny BERT with three classes and a small WordPiece tokenizer."""
    tiny_model("bert").save_pretrained(folder)
    tokenizers.word_piece().save_pretrained(folder)
    return folder


def spread(model):
    """Weights so large that decisions differ between texts and flip."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(6.0)


def write_csv(path, rows, columns=("text", "label")):
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)
    return str(path)


def reviews(path, count, **more):
    """A csv of texts with labels."""
    return write_csv(path, [(text, int("fine" in text)) for text in texts(count, **more)])


def run(*arguments):
    """A command in this process."""
    return CliRunner().invoke(app, [str(item) for item in arguments], env={"COLUMNS": "200"}, prog_name="attnfaith")


def command(*arguments):
    return [sys.executable, "-m", "attnfaith", *map(str, arguments)]


def environment():
    kept = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}


def spawn(*arguments, **more):
    """A command in a process of its own."""
    shared = {"capture_output": True, "text": True, "timeout": 300, "env": environment(), "check": False}
    return subprocess.run(command(*arguments), **shared, **more)


def error_text(result):
    """The text on standard error, in one line, without the frames that rich draws."""
    return " ".join(result.stderr.replace("│", " ").split())


def refused(result, code, *words):
    """A command that ended with a code and one plain message."""
    ended = result.returncode if hasattr(result, "returncode") else result.exit_code
    assert ended == code, (ended, error_text(result))
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in error_text(result), error_text(result)


def files(folder):
    """Every file of a folder, with its bytes."""
    folder = Path(folder)
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def strictly(text):
    """JSON without the NaN and Infinity that only Python reads."""

    def refuse(name):
        raise ValueError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def break_word(folder):
    """Give the word ``boom`` a vector so large that the logits of its texts are no numbers."""
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    index = AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids(BOOM)
    with torch.no_grad():
        model.get_input_embeddings().weight[index] = 3e38
    model.save_pretrained(folder)
    return folder
