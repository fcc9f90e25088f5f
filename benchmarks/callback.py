"""What `FaithfulnessCallback` adds to a training: the time of an evaluation with it over one without.

    python -m benchmarks.callback
    python -m benchmarks.callback --texts 32 --rounds 5

A FLAN and a small BERT are evaluated by Transformers' Trainer on 500 texts of 40 words, alternately with and without
the callback on some other texts. Each figure is the median over rounds, the ratio within a round. The last column says
how many texts the Trainer evaluates in the time of the callback.
"""

import argparse
import statistics
import tempfile
import time

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
from transformers.trainer_callback import PrinterCallback

import attnfaith as af
from attnfaith.training import FaithfulnessCallback

TEXTS = 500
"""Of an evaluation by the Trainer."""
WORDS = [f"word{number}" for number in range(200)]


def texts_of(count: int, seed: int) -> list[str]:
    """Made-up texts of 40 words."""
    draws = torch.randint(len(WORDS), (count, 40), generator=torch.Generator().manual_seed(seed))
    return [" ".join(WORDS[index] for index in row) for row in draws.tolist()]


def models() -> dict[str, torch.nn.Module]:
    """The models by name, with random weights: few decisions flip, which costs the callback most."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS) + 10, hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=512
    )
    tokenizer = af.models.WordTokenizer.train([" ".join(WORDS)], min_count=1)
    return {
        "FLANrnn": af.models.from_preset("FLANrnn", num_labels=2, tokenizer=tokenizer),
        "BERT of 4 layers": BertForSequenceClassification(config),
    }


def seconds(trainer: Trainer) -> float:
    """The time of an evaluation."""
    start = time.perf_counter()
    trainer.evaluate()
    return time.perf_counter() - start


def measure(model: torch.nn.Module, level: str, count: int, rounds: int) -> tuple[float, float, float]:
    """The seconds of an evaluation and of the callback, and the ratio of an evaluation with it to one without."""
    tokenizer = af.models.WordTokenizer.train([" ".join(WORDS)], min_count=1)
    rows = [{**tokenizer(text), "label": 0} for text in texts_of(TEXTS, seed=0)]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, per_device_eval_batch_size=32, report_to=[], disable_tqdm=True, use_cpu=True
        )
        trainer = Trainer(model, arguments, eval_dataset=rows, processing_class=tokenizer)
        trainer.remove_callback(PrinterCallback)
        callback = FaithfulnessCallback(trainer, texts_of(count, seed=1), level=level)
        without, added = [], []
        for number in range(rounds + 1):
            plain = seconds(trainer)
            trainer.add_callback(callback)
            with torch.no_grad():
                next(trainer.model.parameters()).add_(0)  # another version of the weights: nothing is reused
            with_callback = seconds(trainer)
            trainer.remove_callback(callback)
            if number:  # the first round warms up
                without.append(plain)
                added.append(with_callback - plain)
    ratios = [1 + extra / plain for extra, plain in zip(added, without, strict=True)]
    return statistics.median(without), statistics.median(added), statistics.median(ratios)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=16, help="of the callback")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(
        f"{'model':18} erased at  evaluation  callback  ratio  as many texts  ({options.texts} texts in the callback)"
    )
    for name, model in models().items():
        for level in ("attention",) if name.startswith("FLAN") else ("attention", "input"):
            plain, added, ratio = measure(model, level, options.texts, options.rounds)
            print(f"{name:18} {level:9} {plain:8.2f} s {added:7.2f} s {ratio:6.2f} {TEXTS * added / plain:14.0f}")


if __name__ == "__main__":
    main()
