"""Pruthi et al. (2020), "Learning to Deceive with Attention-Based Explanations": attention that hides what decides.

python -m examples.papers.pruthi --data sst_wiki --output runs/
python -m examples.papers.pruthi --data demo --small

Trains a model of single words and a BiLSTM, with a growing penalty on the attention to impermissible tokens, which are
those that say the label. It writes accuracy and impermissible mass (table 3), and how high attention and other rankings
put the impermissible tokens. docs/reproductions.md has what was published and what this finds.
"""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import attnfaith as af
from attnfaith.training import DeceptiveAttention
from examples.papers import shared

DATA = ["sst_wiki"]
ENCODERS = {"words": "JW-average-additive", "BiLSTM": "JW-lstm-additive"}
WEIGHTS = (0.0, 0.1, 1.0)
RANKINGS = ["attention", "gradient", "gradient_x_attention", "optimal"]


def impermissible_mass(model, texts):
    """The share of attention on impermissible tokens, of each test text."""
    explain = af.Attributor(str(model), method="attention", level="attention")
    masses = []
    for explanation, marks in zip(explain(texts.test["text"].tolist()), texts.test["impermissible"], strict=True):
        words = [match.span() for match in re.finditer(r"\S+", explanation.text)]
        ranges = [span for span, mark in zip(words, marks, strict=True) if mark]
        marked = [any(low <= start < high for low, high in ranges) for start, _ in explanation.encoded.offsets]
        masses.append(float(np.dot(explanation.scores, marked) / np.sum(explanation.scores)))
    return np.array(masses)


def results_of(model, texts, work):
    """Accuracy, impermissible mass and what the rankings say of the impermissible tokens."""
    results = work.judge(
        model,
        texts,
        rankings=RANKINGS,
        level="attention",
        tests=["erasure", af.tests.Rationales(form="mask")],
        rationale_column="impermissible",
    )
    summary, mass = results.summary(), impermissible_mass(model, texts)
    half = 1.96 * mass.std() / len(mass) ** 0.5
    found = {"accuracy": shared.accuracy_of(results), "verdict": results.verdict.label}
    found["mass"] = {"value": mass.mean(), "low": mass.mean() - half, "high": mass.mean() + half, "texts": len(mass)}
    found["skill"] = shared.estimate(summary, "skill", ranking="attention")
    for ranking in (*RANKINGS, "random"):
        found[f"{ranking} auprc"] = shared.estimate(summary, "auprc", ranking=ranking)
    return found


def draw(rows, path):
    """Accuracy and impermissible mass against the weight of the penalty."""
    figure = Figure(figsize=(3.5, 2.4), layout="constrained")
    axes = figure.subplots()
    for encoder, found in rows.items():
        axes.plot(
            [values["mass"]["value"] for values in found],
            [values["accuracy"]["value"] for values in found],
            "o-",
            label=encoder,
        )
    axes.set(xlabel="attention on impermissible tokens", ylabel="accuracy", xscale="log")
    axes.legend()
    figure.savefig(path, dpi=150)


def main():
    options = shared.options("pruthi", __doc__, DATA)
    study = shared.study(options, "pruthi", (6920, 872, 600), 6, punctuation=True)
    texts, work = study.texts, study.work
    rows = {}
    for encoder, preset in ENCODERS.items():
        for weight in WEIGHTS[:: 2 if options.small else 1]:

            def judged(encoder=encoder, preset=preset, weight=weight):
                objectives = [DeceptiveAttention(column="impermissible", weight=weight)] if weight else []
                model = study.train(preset, name=f"{encoder}-{weight:g}", objectives=objectives)
                return results_of(model, texts, work)

            rows.setdefault(encoder, []).append(work.once(f"{encoder}/{weight:g}", judged))
    draw(rows, work.folder / "mass.png")
    table = pd.DataFrame(
        {
            name: {key: round(line["value"], 4) for key, line in value["result"].items() if key != "verdict"}
            for name, value in work.values.items()
        }
    ).T
    table.to_csv(work.folder / "table3.csv")
    print(table.to_string())


if __name__ == "__main__":
    main()
