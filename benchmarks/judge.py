"""How often each test and each figure ranks the more faithful of two rankings, or of two models, higher.

python -m benchmarks.judge
python -m benchmarks.judge --small
python -m benchmarks.judge --output runs/ --store docs/reproductions/judge.json

Models are planted: attention classifiers without an encoder whose weights are set by hand, so that it is known which
words decide, and by how much. A *ranking* is the true importance of the items with noise added, more of it at every
grade. A *model* is given attention that follows the importance of words, mixed with noise, more of it at every grade.
Each figure of the package is computed for all grades of one planted task, and every two grades are compared: the figure
is right if it puts the one with less noise higher, and half right if it has them equal. docs/concepts/judge.md has the
tables.

A task is new words with new weights, and new texts. "easy": few words decide, and the others hardly count. "hard": more
words decide, some of them against each other, and all others have a say.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from transformers.utils import logging

import attnfaith as af

WORDS, DECISIVE = 300, 60
"""Words of the vocabulary; how many of them decide, half of them for each class."""
SHARPNESS = 6.0
"""What the evidence is multiplied by to give the difference of the logits, halved."""
GAIN = 1.0
"""The standard deviation of attention scores over words."""
NOISES = (0.0, 0.5, 1.0, 2.0, 4.0, np.inf)
"""Grades of rankings: the standard deviation of the noise, where that of the importance is 1 in every text."""
SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)
"""Grades of models: the share of the variance of attention scores that the importance of words explains."""

RANKING_FIGURES: dict[tuple[str, str, str], int] = {  # test, figure, other: 1 if high is faithful, -1 if low is
    ("erasure", "skill", ""): 1,
    ("erasure", "efficiency", ""): 1,
    ("erasure", "mean_fraction", ""): -1,
    ("erasure", "median_fraction", ""): -1,
    ("erasure", "never_flipped", ""): -1,
    ("rationales", "comprehensiveness", ""): 1,
    ("rationales", "sufficiency", ""): -1,
    ("rationales", "auprc", ""): 1,
    ("rationales", "token_f1", ""): 1,
    ("agreement", "tau", "input/gradient_attention_fixed"): 1,
    ("agreement", "tau", "input/leave_one_out"): 1,
    ("agreement", "overlap", "input/leave_one_out"): 1,
}
MODEL_FIGURES = RANKING_FIGURES | {
    ("single_weight", "delta_js", ""): 1,
    ("single_weight", "delta_js_negative", ""): -1,
    ("single_weight", "only_top", ""): 1,
    ("permutation", "median_tvd", ""): 1,
    ("adversarial", "js_mean_exact", ""): -1,
    ("information", "weighted_kendall", ""): 1,
    ("information", "weighted_kendall_corrected", ""): 1,
}
LABELS = ("unfaithful", "unfaithful or partly", "partly", "partly or faithful", "faithful")
DIFFICULTIES = ("easy", "hard")


@dataclass(frozen=True)
class Task:
    """Planted words: what each says, and to which the model attends.

    Attributes:
        evidence: ``[WORDS]``, positive for class 1.
        scores: ``[WORDS]``, attention scores.
        hard: more words decide, and the others have a say.
    """

    evidence: np.ndarray
    scores: np.ndarray
    hard: bool

    def model(self, tokenizer: Any) -> Any:
        """The classifier: a word's vector is its evidence and its attention score; each is read by what needs it."""
        model = af.models.from_preset(
            "Wen-mlp-dot-softmax", tokenizer=tokenizer, encoder="none", embedding_size=2, dot_scale=False
        )
        known = {f"w{number}": number for number in range(WORDS)}
        with torch.no_grad():
            model.embeddings.weight.zero_()
            for word, index in tokenizer.get_vocab().items():
                if word in known:
                    values = [self.evidence[known[word]], self.scores[known[word]]]
                    model.embeddings.weight[index] = torch.tensor(values, dtype=torch.float32)
            model.attention.context.weight.copy_(torch.tensor([[0.0, 1.0]]))
            model.classifier.weight.copy_(torch.tensor([[-SHARPNESS, 0.0], [SHARPNESS, 0.0]]))
            model.classifier.bias.zero_()
        return model.eval()

    def texts(self, count: int, rng: np.random.Generator) -> pd.DataFrame:
        """Texts of 8 to 30 words with the label that their decisive words say, which are marked."""
        half = DECISIVE // 2
        rows = []
        for number in range(count):
            label, length = number % 2, int(rng.integers(8, 31))
            deciding = int(rng.integers(2, 6) if self.hard else rng.integers(1, 4))
            against = int(rng.integers(0, deciding // 2 + 1)) if self.hard else 0
            words = np.concatenate(
                [
                    rng.integers(0, half, deciding) + half * label,
                    rng.integers(0, half, against) + half * (1 - label),
                    rng.integers(DECISIVE, WORDS, length - deciding - against),
                ]
            )
            marks = np.arange(length) < deciding
            order = rng.permutation(length)
            rows.append(
                {
                    "text": " ".join(f"w{word}" for word in words[order]),
                    "label": label,
                    "marks": marks[order].astype(int).tolist(),
                }
            )
        return pd.DataFrame(rows)

    def importance(self, text: str) -> np.ndarray:
        """What each word adds to the margin of the decision."""
        words = [int(word[1:]) for word in text.split()]
        weights = np.exp(self.scores[words] - self.scores[words].max())
        contributions = weights / weights.sum() * self.evidence[words]
        return contributions * (1 if contributions.sum() > 0 else -1)


def planted(difficulty: str, share: float, rng: np.random.Generator) -> Task:
    """Draw the words of a task.

    Args:
        difficulty: "easy" or "hard".
        share: of the variance of attention scores that the importance of words explains.
        rng: two tasks from equal generators have equal words, whatever the share.
    """
    hard = difficulty == "hard"
    evidence = rng.standard_normal(WORDS) * (0.4 if hard else 0.05)
    sides = np.repeat([-1.0, 1.0], DECISIVE // 2)
    evidence[:DECISIVE] = sides * rng.uniform(0.5, 2.0, DECISIVE)
    size = np.abs(evidence)
    size = (size - size.mean()) / size.std()
    scores = np.sqrt(share) * size + np.sqrt(1 - share) * rng.standard_normal(WORDS)
    return Task(evidence, GAIN * scores, hard)


def noisy(task: Task, noise: float, key: Sequence[int]) -> Callable[[Any], list[float]]:
    """The importance of the words of a text, with noise that depends on the text and the key."""

    def scores(encoded: Any) -> list[float]:
        importance = task.importance(encoded.text)
        drawn = np.random.default_rng([*key, *encoded.text.encode()]).standard_normal(len(importance))
        if np.isinf(noise):
            return drawn.tolist()
        return (importance / max(importance.std(), 1e-12) + noise * drawn).tolist()

    return scores


def tokenizer_of_words() -> Any:
    """A tokenizer of all planted words."""
    return af.models.WordTokenizer.train([" ".join(f"w{number}" for number in range(WORDS))], min_count=1)


def figures_of(summary: pd.DataFrame, ranking: str, figures: Mapping[tuple[str, str, str], int]) -> dict[str, float]:
    """The figures of one ranking, or, where they are of none, of attention."""
    found = {}
    for test, figure, other in figures:
        rows = summary[(summary["test"] == test) & (summary["figure"] == figure)]
        rows = rows[rows["ranking"].isin([ranking, "", "all"]) & (rows["other"] == other)]  # "all" heads
        found[name_of(test, figure, other)] = float(rows["value"].iloc[0]) if len(rows) else float("nan")
    return found


def name_of(test: str, figure: str, other: str) -> str:
    """A figure's name in the tables.

    Example:
        >>> name_of("agreement", "tau", "input/leave_one_out")
        'agreement: tau, leave_one_out'
    """
    return f"{test}: {figure}" + (f", {other.rpartition('/')[2]}" if other else "")


def of_rankings(difficulty: str, texts: int, number: int) -> dict[str, Any]:
    """The figures of the rankings of all grades, on one task."""
    key = [1, DIFFICULTIES.index(difficulty), texts, number]
    rng = np.random.default_rng(key)
    task = planted(difficulty, 0.5, rng)
    data, tokenizer = task.texts(texts, rng), tokenizer_of_words()
    explanations = {f"noise {noise:g}": noisy(task, noise, [*key, grade]) for grade, noise in enumerate(NOISES)}
    results = af.Evaluator(task.model(tokenizer), tokenizer).compute(
        data,
        rankings=["attention"],
        explanations=explanations,
        level="attention",
        tests=["erasure", "agreement", af.tests.Rationales(form="mask")],
        rationale_column="marks",
        n_resamples=9,
        quiet=True,
    )
    summary = results.summary()
    return {"grades": [figures_of(mirrored(summary), name, RANKING_FIGURES) for name in explanations]}


def mirrored(summary: pd.DataFrame) -> pd.DataFrame:
    """The summary with each pair of rankings in both directions."""
    pairs = summary[(summary["test"] == "agreement") & summary["other"].str.contains("/", na=False)]
    turned = pairs.assign(
        ranking=pairs["other"].str.rpartition("/")[2], other=pairs["ranking_level"] + "/" + pairs["ranking"]
    )
    return pd.concat([summary, turned], ignore_index=True)


def of_models(difficulty: str, texts: int, number: int) -> dict[str, Any]:
    """The figures of attention in models of all grades, which share words and texts; and their labels."""
    key = [2, DIFFICULTIES.index(difficulty), texts, number]
    grades, labels = [], []
    for share in SHARES:
        rng = np.random.default_rng(key)
        task = planted(difficulty, share, rng)
        data, tokenizer = task.texts(texts, rng), tokenizer_of_words()
        tests: list[Any] = ["erasure", "single_weight", "agreement", "permutation", af.tests.Rationales(form="mask")]
        tests += [af.tests.Adversarial(steps=5), af.tests.Information(kmeans_seeds=1, permutations=20)]
        results = af.Evaluator(task.model(tokenizer), tokenizer).compute(
            data,
            rankings=["attention"],
            level="attention",
            tests=tests,
            rationale_column="marks",
            n_resamples=199,
            quiet=True,
        )
        grades.append(figures_of(results.summary(), "attention", MODEL_FIGURES))
        labels.append(results.verdict.label)
    return {"grades": grades, "labels": labels}


def compared(runs: Sequence[Mapping[str, Any]], figure: str, sign: int, steps: int) -> tuple[float, int]:
    """The share of pairs of grades so many steps apart that a figure has in the right order, and how many it can tell.

    Example:
        >>> compared([{"grades": [{"f": 3.0}, {"f": 1.0}, {"f": 2.0}]}], "f", 1, 1)
        (0.5, 2)
    """
    right, count = 0.0, 0
    for run in runs:
        values = [sign * (np.nan if grade[figure] is None else grade[figure]) for grade in run["grades"]]
        for better, worse in zip(values, values[steps:], strict=False):
            if not (np.isnan(better) or np.isnan(worse)):
                right += 1.0 if better > worse else 0.5 if better == worse else 0.0
                count += 1
    return (right / count if count else float("nan")), count


def main() -> None:
    """Compute what is not stored, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=20, help="planted tasks of each kind and difficulty")
    parser.add_argument("--texts", type=int, nargs="+", default=[50, 200], help="texts of a run")
    parser.add_argument("--small", action="store_true", help="one task with 50 texts")
    parser.add_argument("--output", type=Path, metavar="DIR", help="keep single runs here, and go on from them")
    parser.add_argument("--store", type=Path, metavar="FILE", help="write the shares here, for the documentation")
    options = parser.parse_args()
    logging.disable_progress_bar()
    tasks, sizes = (1, [50]) if options.small else (options.tasks, options.texts)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.output or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        runs = {}
        for number in range(tasks):
            for kind, compute in (("rankings", of_rankings), ("models", of_models)):
                for difficulty in DIFFICULTIES:
                    for texts in sizes:
                        path = folder / f"{kind}-{difficulty}-{texts}-{number}.json"
                        if not path.exists():
                            path.write_text(json.dumps(compute(difficulty, texts, number)))
                        runs.setdefault((kind, difficulty, texts), []).append(json.loads(path.read_text()))
    shares = list(shares_of(runs))
    for row in shares:
        print(*row.values(), sep=" | ")
    if options.store:
        about = {"command": f"python -m benchmarks.judge --tasks {tasks}", "attnfaith": af.__version__}
        stored = about | {"shares": shares, "labels": labels_of(runs)}
        options.store.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def shares_of(runs: Mapping[tuple[str, str, int], Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """A row for each kind, difficulty, number of texts, figure and distance of grades."""
    rows = []
    for (kind, difficulty, texts), stored in runs.items():
        for key, sign in (RANKING_FIGURES if kind == "rankings" else MODEL_FIGURES).items():
            for steps in (1, 2):
                share, count = compared(stored, name_of(*key), sign, steps)
                cell = {"kind": kind, "difficulty": difficulty, "texts": texts, "figure": name_of(*key)}
                rows.append(cell | {"steps": steps, "share": None if np.isnan(share) else share, "pairs": count})
    return rows


def labels_of(runs: Mapping[tuple[str, str, int], Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """How often models of each grade got each label."""
    rows = []
    for (kind, difficulty, texts), stored in runs.items():
        if kind == "models":
            for grade, share in enumerate(SHARES):
                given = [run["labels"][grade] for run in stored]
                counts = {label: given.count(label) for label in (*LABELS, "undecided")}
                rows.append({"difficulty": difficulty, "texts": texts, "share": share, "labels": counts})
    return rows


if __name__ == "__main__":
    main()
