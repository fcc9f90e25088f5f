"""Jain & Wallace (2019), "Attention is not Explanation": agreement, permutation and adversary on their models.

python -m examples.papers.jain_wallace --data ag_news --output runs/
python -m examples.papers.jain_wallace --data ag_news --output runs/ --experiments
python -m examples.papers.jain_wallace --data demo --small

Trains a BiLSTM and an average encoder with each seed, and writes Kendall's tau of attention with the gradient and with
leave-one-out (table 2), the change of the output when attention is shuffled, and the largest divergence of adversarial
attention (figures). With --experiments it then changes one thing at a time, to see what the taus depend on.
docs/reproductions.md has what was published and what this finds.
"""

from __future__ import annotations

import re
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
    "snli": (15000, 600, 400),
    "imdb": (2000, 400, 200),
    "hockey_baseball": (1000, 200, 250),
}
EPOCHS = {"babi1": 20, "babi2": 12}
JUDGED = 100
"""How many test texts the experiments judge."""
SHORTER = {"hockey_baseball": 230}
"""The longest texts, in words, of an experiment with as short texts as the paper's are on average."""


def results_of(model, texts, work, steps):
    """Table 2 and the figures' numbers of one model, by predicted class and of all texts."""
    tests = [af.tests.Agreement(pairs="attention"), "permutation", af.tests.Adversarial(steps=steps)]
    results = work.judge(model, texts, rankings=["attention"], level="attention", tests=tests, n_resamples=999)
    for test in ("permutation", "adversarial"):
        results.plot(test, path=work.folder / f"{test}-{model.name}.png")
    results.plot("agreement", kind="distributions", path=work.folder / f"agreement-{model.name}.png")
    return figures_of(results, ("median_tvd", "max_tvd", "js_mean", "js_mean_exact"))


def figures_of(results, names):
    """Accuracy, figures of all texts, and taus of all texts and by predicted class."""
    found = {"accuracy": shared.accuracy_of(results)}
    overall, by_class = results.summary(), results.summary(by="class")
    for name in names:
        rows = overall[(overall["figure"] == name) & (overall["other"] == "")]
        if len(rows):  # of several classes the exact one is not always known
            found[name] = shared.estimate(rows, name)
    for measure, other in MEASURES.items():
        for part, summary in [("all", overall), *by_class.groupby("slice")]:
            where = {"ranking": "attention", "other": other}
            if ((summary["figure"] == "tau") & (summary["other"] == other)).any():
                line = {name: shared.estimate(summary, name, **where) for name in ("tau", "tau_sd", "significant")}
                found[f"{measure} {part}"] = line
    return found


def more_texts(texts):
    """More training texts, and what they are: four times as many, or, where there are no others, those for testing."""
    every = shared.without_punctuation(shared.read(texts.name, (4 * len(texts.train), 1, 10**6)))
    if len(every.train) >= 2 * len(texts.train):
        return f"{len(every.train) / len(texts.train):.2g} times the training texts", every.train
    others = every.test[~every.test["text"].isin(texts.test["text"])]
    return "the other test texts are trained on, too", pd.concat([texts.train, others], ignore_index=True)


def shorter(table, most):
    """The rows of texts of at most so many words."""
    return table[table["text"].str.split().str.len() <= most].reset_index(drop=True)


def variants(study):
    """A study with one thing changed, and the seed, by the name of the change."""
    texts, vectors = study.texts, study.vectors
    yield "nothing", study, 0
    yield "the seed", study, 1
    yield "the seed again", study, 2
    yield "one epoch", replace(study, epochs=1), 0
    half = replace(texts, train=texts.train[: len(texts.train) // 2])
    yield "half of the training texts, twice the epochs", replace(study, texts=half, epochs=2 * study.epochs), 0
    if vectors is not None:
        change, more = more_texts(texts)
        yield change, replace(study, texts=replace(texts, train=more)), 0
    if texts.name in SHORTER:
        parts = {split: shorter(getattr(texts, split), SHORTER[texts.name]) for split in shared.SPLITS}
        mean = parts["train"]["text"].str.split().str.len().mean()
        change = f"texts of at most {SHORTER[texts.name]} words, {mean:.0f} on average"
        yield change, replace(study, texts=replace(texts, **parts)), 0
    known = af.models.WordTokenizer.train(texts.train["text"].tolist(), min_count=2, lowercase=True)
    once = replace(study, tokenizer=known, vectors=shared.glove(known))
    yield "words that the training texts have once, or not, are one word", once, 0
    if vectors is not None:
        spread = study.model_settings | {"initializer_range": float(vectors.matrix.std())}
        yield "words without a vector begin with drawn numbers", replace(study, model_settings=spread), 0
        rotation, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((300, vectors.matrix.shape[1])))
        wide = replace(vectors, matrix=(vectors.matrix @ rotation.T).astype(np.float32))
        yield "vectors rotated into 300 numbers", replace(study, vectors=wide), 0
        spread = study.model_settings | {"initializer_range": float(wide.matrix.std())}
        together = replace(study, texts=replace(texts, train=more), model_settings=spread, vectors=wide)
        yield "more texts, drawn numbers and 300 numbers together", together, 0
        yield "these together, and twice the epochs", replace(together, epochs=2 * study.epochs), 0


def experiments(study, encoder, step):
    """Train an encoder with one thing changed, and print and store the taus of the first test texts."""
    for name, changed, seed in list(variants(study))[::step]:
        folder = f"{ENCODERS[encoder]}-experiment-{re.sub(r'[^a-z0-9]+', '-', name)}"

        def judged(changed=changed, seed=seed, folder=folder):
            model = changed.train(ENCODERS[encoder], seed=seed, name=folder)
            tests = [af.tests.Agreement(pairs="attention"), "permutation"]
            texts = replace(changed.texts, test=changed.texts.test[:JUDGED])
            results = study.work.judge(
                model, texts, rankings=["attention"], level="attention", tests=tests, n_resamples=999
            )
            return figures_of(results, ("median_tvd",))

        found = study.work.once(f"experiment {encoder}/{name}", judged)
        taus = {key: round(line["tau"]["value"], 2) for key, line in found.items() if "tau" in line}
        print(f"{encoder}, changed: {name}: {taus}", flush=True)


def main():
    options = shared.options("jain_wallace", __doc__, DATA, experiments="change one thing at a time")
    sizes, epochs = SIZES.get(options.data, (10000, 1000, 400)), EPOCHS.get(options.data, 8)
    study = shared.study(options, "jain_wallace", sizes, epochs)
    if options.experiments:
        # where both differ from the paper, both
        for encoder in ENCODERS if options.data == "hockey_baseball" else ["BiLSTM"]:
            experiments(study, encoder, 4 if options.small else 1)
        return
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
