"""What it costs to store single texts and to read them in the report: time, bytes on disk, and the page.

python -m benchmarks.reader
python -m benchmarks.reader --texts 10000 --words 20 200 --stored 0

Time: what storing takes of an evaluation whose texts are all in the sample, so that larger runs take a smaller share.
There are two models: a FLAN without encoder, which is the fastest that there is, and a BERT of 12 layers of 384 (random
weights), erased at both levels.

Size: a run of many texts of so many words, of which a sample is stored; bytes of the stored tables and of the reader's
section of the page; the time to make it; and the time that a headless Chromium takes to open it, from the start of the
navigation until the script has run and the list is laid out.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from transformers import BertConfig, BertForSequenceClassification

import attnfaith as af
from attnfaith.evaluation.stored_texts import PROFILED, STEPS, TEXTS
from attnfaith.report.reader import section

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
VOCABULARY = 2000


def texts_of(count: int, words: int, seed: int = 0) -> list[dict[str, str]]:
    """Texts of made-up words, of half to one and a half times so many."""
    draw = random.Random(seed)
    vocabulary = [f"word{number}" for number in range(VOCABULARY)]
    return [
        {"text": " ".join(draw.choices(vocabulary, k=draw.randint(words // 2, words * 3 // 2)))} for _ in range(count)
    ]


def evaluator_of(kind: str) -> af.Evaluator:
    """One of the two models."""
    tokenizer = af.models.WordTokenizer.train([" ".join(f"word{number}" for number in range(VOCABULARY))], min_count=1)
    torch.manual_seed(0)
    if kind == "FLAN":
        model: Any = af.models.from_preset("FLANnoenc", num_labels=2, tokenizer=tokenizer)
    else:
        config = BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=384,
            num_hidden_layers=12,
            num_attention_heads=12,
            intermediate_size=1536,
            pad_token_id=tokenizer.pad_token_id,
        )
        model = BertForSequenceClassification(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(6.0 if kind == "FLAN" else 2.0)
    return af.Evaluator(model, tokenizer)


def share(kind: str, count: int, words: int) -> tuple[float, float]:
    """The seconds of an evaluation that stores all of its texts, and those that storing took, files aside."""
    evaluator, data = evaluator_of(kind), texts_of(count, words)
    evaluator.compute(data[:4], tests=["erasure"], quiet=True, n_resamples=20)
    start = time.perf_counter()
    evaluator.compute(data, tests=["erasure"], quiet=True, n_resamples=20)
    assert evaluator.profile is not None
    return time.perf_counter() - start, evaluator.profile.parts[PROFILED].seconds


def opened(page: Path, folder: Path, rounds: int = 3) -> float:
    """The median time in seconds from the start of the navigation until the page has run its script and is laid out."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        return float("nan")
    times = []
    for number in range(rounds):
        profile = f"--user-data-dir={folder / f'{page.stem}-{number}'}"
        command = [chromium, *FLAGS, profile, "--dump-dom", page.as_uri()]
        shown = subprocess.run(command, capture_output=True, check=True, encoding="utf-8").stdout
        times.append(float(shown.split("<title>")[1].split("</title>")[0]) / 1000)
    return median(times)


def page(count: int, words: int) -> str:
    """One line on a run of so many texts."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        data = texts_of(count, words)
        results = evaluator_of("FLAN").compute(
            data, tests=["erasure"], quiet=True, n_resamples=20, output_dir=folder / "run"
        )
        stored = sum(
            file.stat().st_size for name in (TEXTS, STEPS) for file in (folder / "run" / name).glob("*.parquet")
        )
        start = time.perf_counter()
        content = str(section(results))
        made = time.perf_counter() - start
        head = '<!doctype html><meta charset="utf-8"><title></title>'
        clock = "<script>document.body.offsetHeight; document.title = performance.now()</script>"
        (folder / "page.html").write_text(f"{head}<body>{content}{clock}</body>", encoding="utf-8")
        seconds = opened(folder / "page.html", folder)
        size = len(content.encode())
        shown = content.split('"shown":')[1].split(",")[0]
        return (
            f"{count:>7,} texts of {words:>3} words: {stored / 1e6:5.1f} MB stored, section {size / 1e6:5.1f} MB with "
            f"{int(shown):,} texts, made in {made:4.1f} s, opened in {seconds:4.2f} s"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=10_000, help="of the run whose page is made")
    parser.add_argument("--words", type=int, nargs="+", default=[20, 200], help="of a text")
    parser.add_argument("--stored", type=int, default=1000, help="texts of the runs that are timed; 0 for none")
    options = parser.parse_args(arguments)
    for words in options.words:
        print(page(options.texts, words), flush=True)
    for kind, count in (("FLAN", options.stored), ("BERT", max(1, options.stored // 100))) if options.stored else ():
        seconds, storing = share(kind, count, 20)
        each = 1000 * storing / count
        print(
            f"{kind}: {count:,} texts in {seconds:.1f} s, of which storing {100 * storing / seconds:.2f} %, "
            f"{each:.2f} ms for each",
            flush=True,
        )


if __name__ == "__main__":
    main()
