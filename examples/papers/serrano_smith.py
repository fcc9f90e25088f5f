"""Serrano & Smith (2019), "Is Attention Interpretable?": single weights and sets of weights in their six architectures.

python -m examples.papers.serrano_smith --data imdb --output runs/
python -m examples.papers.serrano_smith --data demo --small

Trains HAN and FLAN with a GRU, with convolutions and without an encoder. For each it writes figures 3 and 4 (what
single weights do), figures 5 and 6 (how much must be erased until the decision flips), tables 2 and 3 (flips by single
weights, accuracy), and what the paper calls out of reach: how far each ranking is from the smallest set there is.
docs/reproductions.md has what was published and what this finds.
"""

from __future__ import annotations

import pandas as pd

import attnfaith as af
from examples.papers import shared

DATA = ["imdb", "imdb_stars", "yelp5"]
MODELS = ["HANrnn", "HANconv", "HANnoenc", "FLANrnn", "FLANconv", "FLANnoenc"]
RANKINGS = ["attention", "gradient", "gradient_x_attention", "optimal"]
SIZES = (4000, 500, 500)
CELLS = ("both", "only_top", "only_drawn", "neither")


def results_of(model, texts, work):
    """The tables' numbers of one model, and its figures."""
    results = work.judge(model, texts, rankings=RANKINGS, level="attention")
    for test, kind in (("single_weight", None), ("erasure", None), ("erasure", "efficiency"), ("erasure", "wins")):
        results.plot(test, kind=kind, path=work.folder / f"{model.name}-{test}{'-' + kind if kind else ''}.png")
    summary = results.summary()
    found = {"accuracy": shared.accuracy_of(results), "verdict": results.verdict.label}
    for cell in (*CELLS, "delta_js", "delta_js_negative"):
        found[cell] = shared.estimate(summary, cell, ranking="attention")
    for share in ("wins", "losses", "ties"):
        found[f"gradient {share}"] = shared.estimate(summary, share, ranking="gradient", other="attention/attention")
    for ranking in (*RANKINGS, "random"):
        for figure in ("mean_fraction", "median_fraction", "efficiency", "never_flipped"):
            found[f"{ranking} {figure}"] = shared.estimate(summary, figure, ranking=ranking)
    found["skill"] = shared.estimate(summary, "skill", ranking="attention")
    return found


def main():
    options = shared.options(
        "serrano_smith", __doc__, DATA, fast="at ten times the paper's rate, which is for large data"
    )
    sizes = options.texts or ((120, 30, 30) if options.small else SIZES)
    epochs = options.epochs or (1 if options.small else 12)
    texts = shared.read(options.data, sizes)
    about = {"paper": "serrano_smith", "epochs": epochs, **texts.sizes()}
    if options.fast:
        about["options"] = "--fast"
    work = shared.Work(options.output / f"serrano_smith-{options.data}", about)
    # The vectors of the paper are not to be had: GloVe's are, and where these are missing vectors are trained here.
    flat, marked = (af.models.WordTokenizer.train(texts.words(), min_count=5, sentences=mark) for mark in (False, True))
    paper_data = "yelp" if options.data == "yelp5" else "imdb"
    rows = {}
    models = {name: (name, 1) for name in MODELS[:: 3 if options.small else 1]}
    if options.fast:
        models = {f"{name}, rate × 10": model for name, model in models.items()}
        # An experiment: are models without an encoder slower to learn, or do they learn less?
        slow = {} if options.small else {name: (name, 5) for name in MODELS if name.endswith("noenc")}
        models |= {f"{name}, rate × 10, 5 times the epochs": model for name, model in slow.items()}
    elif not options.small:
        models["FLANnoenc, rate × 10"] = ("FLANnoenc", 1)
    for name, (preset, times) in models.items():
        tokenizer = marked if preset.startswith("HAN") else flat

        def judged(name=name, preset=preset, times=times, tokenizer=tokenizer):
            vectors = shared.glove(tokenizer) or af.models.train_vectors(texts.words(), tokenizer, size=20)
            settings, folder = {}, preset
            if name != preset:
                settings["learning_rate"] = 10 * shared.recipe(preset, dataset=paper_data)["learning_rate"]
                folder += "-fast"
            if times > 1:
                settings["patience"] = None
                folder += f"-{times}"
            model = work.train(
                preset,
                texts,
                seed=0,
                epochs=times * epochs,
                tokenizer=tokenizer,
                vectors=vectors,
                dataset=paper_data,
                settings=settings,
                name=folder,
            )
            return results_of(model, texts, work)

        rows[name] = work.once(name, judged)
    table = pd.DataFrame(
        {
            preset: {
                key: round(found[key]["value"], 3)
                for key in (
                    "accuracy",
                    *CELLS,
                    "gradient wins",
                    "gradient losses",
                    *(f"{ranking} mean_fraction" for ranking in (*RANKINGS, "random")),
                    *(f"{ranking} efficiency" for ranking in (*RANKINGS, "random")),
                )
            }
            for preset, found in rows.items()
        }
    ).T
    table.to_csv(work.folder / "tables.csv")
    print(table.T.to_string())


if __name__ == "__main__":
    main()
