"""Wen, Subbalakshmi & Yang (2022): does attention order the encoded words by their information about the output?

python -m examples.papers.wen --data sst2 --output runs/
python -m examples.papers.wen --data sst2 --output runs/ --gumbel
python -m examples.papers.wen --data sst2 --output runs/ --ablations
python -m examples.papers.wen --data demo --small

Trains three encoders with three attentions, and writes the weighted Kendall tau of mean attention with the mutual
information by rank (figure 2), with a figure of each; with --gumbel also for Gumbel-softmax (table 5). With --ablations
only the BiLSTM with additive attention is trained, and again with fixed attention and with fixed representations
(table 2), and as an adversary (tables 3 and 4). docs/reproductions.md has what was published and what this finds.
"""

from __future__ import annotations

from contextlib import nullcontext

import pandas as pd
from transformers import AutoModelForSequenceClassification

import attnfaith as af
from attnfaith.diagnostics import diagnose
from attnfaith.training import FixedAttention, FixedRepresentations, recipe
from examples.papers import shared

DATA = ["sst2", "ag_news", "imdb", "babi1", "hockey_baseball"]
ENCODERS = {"BiLSTM": "lstm", "CNN": "conv", "MLP": "mlp"}
ATTENTIONS = ["additive", "deep", "dot"]
SIZES = {"imdb": (2000, 400, 1000), "babi1": (4000, 400, 1000)}
PRESET = "Wen-lstm-additive-softmax"
"""What the ablations are of."""
LAMBDAS = {"sst2": 0.000525, "imdb": 0.0008}
"""The paper's lambdas (table 3); 0.0005 for other data."""
FIGURES = ("weighted_kendall", "weighted_kendall_corrected", "informative", "ranks", "samples")


def results_of(model, texts, work, fixed=None, run="information"):
    """The taus of one model and its accuracy; the figures show information and attention by rank.

    With ``fixed``, the model is run with that attention, as it was trained. ``run`` distinguishes models of one name.
    """
    found = {}
    loaded = None if fixed is None else load(model)
    with nullcontext() if fixed is None else fixed.on(loaded):
        for clusters in (None, "paper"):
            taus = taus_of(model, texts, work, clusters, loaded, run)
            found |= taus if clusters is None else {clusters: taus}
    return found


def taus_of(model, texts, work, clusters, loaded, run):
    """The estimates of the test, with the paper's number of clusters or with the default one."""
    test = af.tests.Information(clusters=clusters, fewest=50)
    results = work.judge(
        model,
        texts,
        run=f"{run}-{clusters}",
        loaded=loaded,
        level="attention",
        tests=[test],
        rankings=["attention"],
    )
    results.plot("information", path=work.folder / f"{model.name}-{run}.png")
    summary = results.summary()
    summary = summary[summary["test"] == "information"]
    return {"accuracy": shared.accuracy_of(results)} | {
        figure: shared.estimate(summary, figure, ranking="all", other="") for figure in FIGURES
    }


def load(folder):
    """A trained model of this library."""
    return AutoModelForSequenceClassification.from_pretrained(folder).eval()


def normal(study):
    """The model as it is trained usually."""
    return study.train(PRESET)


def fixed_attention(study, weights):
    """Encoder and classifier are trained; attention is that of another model, and stays so."""
    other = load(normal(study)) if weights == "trained" else study.fresh(PRESET, seed=1).eval()
    fixed = FixedAttention(other)
    trained = study.train(PRESET, name=f"{PRESET}-fixed-{weights}", objectives=[fixed])
    return results_of(trained, study.texts, study.work, fixed)


def fixed_representations(study):
    """Word vectors and encoder stay as they were trained; attention is trained from scratch, and the classifier on."""

    def begin(model):
        model.load_state_dict(load(normal(study)).state_dict())
        for module in model.attention.modules():
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()

    name = f"{PRESET}-fixed-representations"
    trained = study.train(PRESET, name=name, objectives=[FixedRepresentations()], begin=begin)
    return results_of(trained, study.texts, study.work)


def adversary(study, small, times=1):
    """A model with the outputs of the usual one, and attention that is as different as can be.

    With ``times`` it is trained for so many times the epochs, and with the paper's lambda alone.
    """
    texts, work = study.texts, study.work
    folder = work.folder / ("adversary" if times == 1 else f"adversary-{times}")
    own = LAMBDAS.get(texts.name, 0.0005)
    diagnosis = diagnose(
        str(normal(study)),
        texts.train,
        output_dir=folder,
        tests=["adversary"],
        validation_data=texts.dev,
        test_data=texts.test,
        training=recipe(PRESET) | {"epochs": times * study.epochs, "patience": None},
        vectors=study.vectors,
        lambdas=[own, 0.002, 0.01] if times == 1 else [own],
        small=small,
        n_resamples=999,
        quiet=True,
    )
    diagnosis.plot("adversary", path=folder.with_suffix(".png"))
    table, summary = diagnosis.table("adversary_validation"), diagnosis.summary()
    (chosen,) = table[table["chosen"]].to_dict("records")
    model = folder / "models" / f"adversary-{chosen['lambda']:g}-0"
    found = {"lambda": float(chosen["lambda"]), "near": bool(chosen["near"])}
    for figure in ("tvd", "jsd"):
        found[figure] = shared.estimate(summary[summary["of"] == chosen["model"]], figure)
    run = "information" if times == 1 else f"information-{times}"
    return found | results_of(model, texts, work, run=run)


def models_of(study, options):
    """What is trained and judged, by name: encoder, attention, and how attention is made."""
    if options.ablations:
        runs = {"softmax": lambda: results_of(normal(study), study.texts, study.work)}
        for weights in ("untrained", "trained"):
            runs[f"fixed attention, {weights}"] = lambda weights=weights: fixed_attention(study, weights)
        runs["fixed representations"] = lambda: fixed_representations(study)
        if not study.texts.second:  # the paper: does not work for questions and pairs
            runs["adversary"] = lambda: adversary(study, options.small)
            if not options.small:
                runs["adversary, 5 times the epochs"] = lambda: adversary(study, options.small, 5)
        return {f"BiLSTM/additive/{name}": run for name, run in runs.items()}
    runs = {}
    for normaliser in ("softmax", "gumbel") if options.gumbel else ("softmax",):
        for encoder, short in list(ENCODERS.items())[:: 2 if options.small else 1]:
            for attention in ATTENTIONS[:: 3 if options.small else 1]:

                def judged(preset=f"Wen-{short}-{attention}-{normaliser}"):
                    return results_of(study.train(preset), study.texts, study.work)

                runs[f"{encoder}/{attention}/{normaliser}"] = judged
    return runs


def main():
    options = shared.options("wen", __doc__, DATA, gumbel="also with Gumbel-softmax", ablations="fixed, adversarial")
    study = shared.study(options, "wen", SIZES.get(options.data, (10000, 1000, 2000)), 8)
    rows = {name: study.work.once(name, run) for name, run in models_of(study, options).items()}
    table = pd.DataFrame(
        {
            name: {figure: round(found[figure]["value"], 3) for figure in ("accuracy", *FIGURES)}
            | {"as in the paper": round(found["paper"]["weighted_kendall"]["value"], 3)}
            for name, found in rows.items()
        }
    ).T
    table.to_csv(study.work.folder / "tau.csv")
    print(table.to_string())


if __name__ == "__main__":
    main()
