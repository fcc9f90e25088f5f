"""Jain & Wallace (2019), "Attention is not Explanation": agreement, permutation and adversary on their models.

python -m examples.papers.jain_wallace --data ag_news --output runs/
python -m examples.papers.jain_wallace --data demo --small

Trains a BiLSTM and an average encoder with each seed, and writes Kendall's tau of attention with the gradient and with
leave-one-out (table 2), the change of the output when attention is shuffled, and the largest divergence of adversarial
attention (figures). docs/reproductions.md has what was published and what this finds.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

import attnfaith as af
from examples.papers import shared

DATA = ["sst2", "hockey_baseball", "ag_news", "babi1", "babi2", "snli", "imdb"]
ENCODERS = {"BiLSTM": "JW-lstm-additive", "average": "JW-average-additive"}
MEASURES = {"gradient": "input/gradient_attention_fixed", "leave-one-out": "input/leave_one_out"}
SIZES = {  # training, validation and test texts
    "babi1": (4000, 400, 300),
    "babi2": (4000, 400, 200),
    "snli": (6000, 600, 400),
    "imdb": (2000, 400, 200),
    "hockey_baseball": (1000, 200, 250),
}
EPOCHS = {"babi1": 20, "babi2": 12}


def results_of(model, texts, work, steps):
    """Table 2 and the figures' numbers of one model, by predicted class and of all texts."""
    tests = [af.tests.Agreement(pairs="attention"), "permutation", af.tests.Adversarial(steps=steps)]
    results = work.judge(model, texts, rankings=["attention"], level="attention", tests=tests, n_resamples=999)
    for test in ("permutation", "adversarial"):
        results.plot(test, path=work.folder / f"{test}-{model.name}.png")
    results.plot("agreement", kind="distributions", path=work.folder / f"agreement-{model.name}.png")
    found = {"accuracy": shared.accuracy_of(results)}
    overall, by_class = results.summary(), results.summary(by="class")
    for name in ("median_tvd", "max_tvd", "js_mean", "js_mean_exact"):
        rows = overall[(overall["figure"] == name) & (overall["other"] == "")]
        found[name] = shared.estimate(rows, name)
    for measure, other in MEASURES.items():
        for part, summary in [("all", overall), *by_class.groupby("slice")]:
            where = {"ranking": "attention", "other": other}
            if ((summary["figure"] == "tau") & (summary["other"] == other)).any():
                line = {name: shared.estimate(summary, name, **where) for name in ("tau", "tau_sd", "significant")}
                found[f"{measure} {part}"] = line
    return found


def main():
    options = shared.options("jain_wallace", __doc__, DATA)
    sizes, epochs = SIZES.get(options.data, (10000, 1000, 400)), EPOCHS.get(options.data, 8)
    study = shared.study(options, "jain_wallace", sizes, epochs)
    work, rows = study.work, []
    seeds = range(1 if options.small else options.seeds)
    models = {f"{encoder}/{seed}": (study, preset, seed) for seed in seeds for encoder, preset in ENCODERS.items()}
    if study.vectors is not None and not options.small:
        # An experiment: words without a vector begin with numbers drawn as spread as GloVe's.
        drawn = study.model_settings | {"initializer_range": float(study.vectors.matrix.std())}
        models["drawn average/0"] = (replace(study, model_settings=drawn), ENCODERS["average"], 0)
    for name, (of, preset, seed) in models.items():
        encoder = name.partition("/")[0]

        def judged(of=of, encoder=encoder, preset=preset, seed=seed):
            model = of.train(preset, seed=seed, name=f"{preset}-drawn" if encoder.startswith("drawn") else None)
            return results_of(model, of.texts, work, steps=50 if options.small else 500)

        for key, line in work.once(name, judged).items():
            if isinstance(line.get("tau"), dict):
                rows.append((encoder, seed, key, *(line[figure]["value"] for figure in line)))
    table = pd.DataFrame(rows, columns=["encoder", "seed", "of", "tau", "sd", "significant"])
    table.to_csv(work.folder / "table2.csv", index=False)
    means = table.groupby(["encoder", "of"])[["tau", "sd", "significant"]].mean().round(2)
    print(means.to_string())
    print("accuracy:", np.round([work.values[name]["result"]["accuracy"]["value"] for name in work.values], 3))


if __name__ == "__main__":
    main()
