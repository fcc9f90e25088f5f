"""Wen, Subbalakshmi & Yang (2022): does attention order the encoded words by their information about the output?

python -m examples.papers.wen --data sst2 --output runs/
python -m examples.papers.wen --data sst2 --output runs/ --gumbel
python -m examples.papers.wen --data demo --small

Trains three encoders with three attentions, and writes the weighted Kendall tau of mean attention with the mutual
information by rank (table 1), with a figure of each; with --gumbel also for Gumbel-softmax (table 5).
docs/reproductions.md has what was published and what this finds.
"""

from __future__ import annotations

import pandas as pd

import attnfaith as af
from examples.papers import shared

DATA = ["sst2", "ag_news", "imdb", "babi1"]
ENCODERS = {"BiLSTM": "lstm", "CNN": "conv", "MLP": "mlp"}
ATTENTIONS = ["additive", "deep", "dot"]
SIZES = {"imdb": (2000, 400, 1000), "babi1": (4000, 400, 1000)}
FIGURES = ("weighted_kendall", "weighted_kendall_corrected", "informative", "ranks", "samples")


def results_of(model, texts, work, clusters):
    """The tau of one model and its accuracy; the figure shows information and attention by rank."""
    test = af.tests.Information(clusters=clusters, fewest=50)
    results = work.judge(
        model, texts, run=f"information-{clusters}", level="attention", tests=[test], rankings=["attention"]
    )
    results.plot("information", path=work.folder / f"{model.name}-information.png")
    summary = results.summary()
    summary = summary[summary["test"] == "information"]
    return {"accuracy": shared.accuracy_of(results)} | {
        figure: shared.estimate(summary, figure, ranking="all", other="") for figure in FIGURES
    }


def main():
    options = shared.options("wen", __doc__, DATA, gumbel="also with Gumbel-softmax")
    study = shared.study(options, "wen", SIZES.get(options.data, (10000, 1000, 2000)), 8)
    texts, work = study.texts, study.work
    rows = {}
    for normaliser in ("softmax", "gumbel") if options.gumbel else ("softmax",):
        for encoder, short in list(ENCODERS.items())[:: 2 if options.small else 1]:
            for attention in ATTENTIONS[:: 3 if options.small else 1]:

                def judged(preset=f"Wen-{short}-{attention}-{normaliser}"):
                    model = study.train(preset)
                    return results_of(model, texts, work, None) | {"paper": results_of(model, texts, work, "paper")}

                name = f"{encoder}/{attention}/{normaliser}"
                rows[name] = work.once(name, judged)
    table = pd.DataFrame(
        {
            name: {figure: round(found[figure]["value"], 3) for figure in ("accuracy", *FIGURES)}
            | {"as in the paper": round(found["paper"]["weighted_kendall"]["value"], 3)}
            for name, found in rows.items()
        }
    ).T
    table.to_csv(work.folder / "tau.csv")
    print(table.to_string())


if __name__ == "__main__":
    main()
