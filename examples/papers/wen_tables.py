"""The tables of Wen et al. in docs/reproductions.md, with what the paper has."""

from __future__ import annotations

import numpy as np

from examples.papers.tables import command, head, missing, number, stored

WEN = {"additive": 0.80, "deep": 0.74, "dot": 0.45}  # means over data sets and encoders, 10 runs
WEN_CELLS = {("BiLSTM", "additive"): 0.92, ("CNN", "additive"): 0.88, ("CNN", "deep"): 0.83, ("BiLSTM", "deep"): 0.80}
WEN_NINE = ("sst2", "ag_news", "imdb", "babi1")
"""The data on which all nine models are trained; on the others only the BiLSTM with additive attention is."""
WEN_FIXED = {  # table 2: how much tau falls with fixed attention, and with fixed representations
    "sst2": (0.71, -0.02),
    "ag_news": (0.75, -0.07),
    "imdb": (0.16, -0.01),
    "babi1": (1.70, -0.02),
    "hockey_baseball": (1.32, -0.07),
}
WEN_TWIN = {  # tables 3 and 4: lambda, distance of the outputs, divergence of attention, accuracy, how much tau falls
    "sst2": (0.000525, 0.036, 0.316, 0.82, 0.04),
    "ag_news": (0.0005, 0.009, 0.664, 0.96, 0.05),
    "imdb": (0.0008, 0.021, 0.482, 0.90, 0.08),
    "hockey_baseball": (0.0005, 0.037, 0.391, 0.90, 0.09),
}
WEN_GUMBEL = {"deep": "28 of 33", "dot": "25 of 33", "additive": "31 of 33"}
"""Table 5: how often tau is not lower with Gumbel-softmax."""


def wen_models(data):
    """The results of the models of one data set by encoder, attention and how attention is made."""
    results = stored(f"wen-{data}")
    return {tuple(name.split("/")): run["result"] for name, run in results["values"].items()} if results else {}


def tau_of(found):
    """The weighted tau, as the paper defines it."""
    return found["paper"]["weighted_kendall"]


def wen():
    yield from head(
        "data",
        "encoder",
        "attention",
        "tau as in the paper>",
        "corrected for chance, finer clusters>",
        "informative ranks>",
        "accuracy>",
    )
    runs = []
    for data in WEN_FIXED:
        models = {name: found for name, found in wen_models(data).items() if name[2] == "softmax"}
        if not models and data in WEN_NINE:
            yield missing(7, "wen", data)
            continue
        if not models:
            continue
        more = "" if data in WEN_NINE else ", with `--ablations`"
        runs += ["", f"`{data}`: {command(stored(f'wen-{data}'))}{more}."]
        for (encoder, attention, _), found in models.items():
            informative = f"{found['informative']['value']:.0f} of {found['ranks']['value']:.0f}"
            yield (
                f"| `{data}` | {encoder} | {attention} | {number(tau_of(found))} | "
                f"{number(found['weighted_kendall_corrected'])} | {informative} | {number(found['accuracy'])} |"
            )
    yield from runs


def wen_means():
    """The published means, beside those over what is run here."""
    yield from head("encoder", "attention", "published>", "found>", "lowest to highest", "models>")
    taus = {
        (data, *name[:2]): tau_of(found)["value"]
        for data in WEN_FIXED
        for name, found in wen_models(data).items()
        if name[2] == "softmax"
    }
    every = {("all", attention): published for attention, published in WEN.items()}
    for (encoder, attention), published in (every | WEN_CELLS).items():
        chosen = [value for name, value in taus.items() if name[2] == attention and encoder in ("all", name[1])]
        chosen = [value for value in chosen if not np.isnan(value)]
        if chosen:
            cells = f"{np.mean(chosen):.2f} | {min(chosen):.2f} to {max(chosen):.2f} | {len(chosen)}"
        else:
            cells = "*not run yet:* `python -m examples.papers.wen` | |"
        yield f"| {encoder} | {attention} | {published:.2f} | {cells} |"


def wen_gumbel():
    yield from head("data", "encoder", "attention", "tau with softmax>", "with Gumbel-softmax>", "change>")
    counts, ran = {name: [0, 0] for name in WEN_GUMBEL}, False
    for data in WEN_FIXED:
        models = wen_models(data)
        for (encoder, attention, normaliser), found in models.items():
            if normaliser == "gumbel":
                plain, gumbel = tau_of(models[encoder, attention, "softmax"]), tau_of(found)
                change, ran = gumbel["value"] - plain["value"], True
                counts[attention][0] += round(change, 2) >= 0
                counts[attention][1] += 1
                yield (f"| `{data}` | {encoder} | {attention} | {number(plain)} | {number(gumbel)} | {change:+.2f} |")
    if not ran:
        yield "| *not run yet:* `python -m examples.papers.wen --gumbel` | | | | | |"
    said = [f"{name} {a} of {n} (published: {WEN_GUMBEL[name]})" for name, (a, n) in counts.items()]
    yield from ("", f"Tau is as high or higher with Gumbel-softmax in: {', '.join(said)}.")


def wen_fixed():
    yield from head(
        "data",
        "what is fixed",
        "tau falls by: published>",
        "found>",
        "tau, trained as usual>",
        "so fixed>",
        "accuracy>",
    )
    labels = {
        "fixed attention, untrained": "attention, of an untrained model",
        "fixed attention, trained": "attention, of the model trained as usual",
        "fixed representations": "representations",
    }
    for data, (attention, representations) in WEN_FIXED.items():
        models = wen_models(data)
        ablated = {name[2]: found for name, found in models.items() if name[2] in labels}
        if not ablated:
            yield missing(7, "wen", data).replace(f"--data {data}", f"--data {data} --ablations")
        for name, found in ablated.items():
            plain, tau = tau_of(models["BiLSTM", "additive", "softmax"]), tau_of(found)
            published = representations if name == "fixed representations" else attention
            falls = f"{published:+.2f} | {plain['value'] - tau['value']:+.2f}"
            cells = " | ".join(number(line) for line in (plain, tau, found["accuracy"]))
            yield f"| `{data}` | {labels[name]} | {falls} | {cells} |"


def wen_twin():
    yield from head(
        "data",
        "",
        "lambda>",
        "distance of outputs (TVD)>",
        "divergence of attention (JS, nats)>",
        "accuracy>",
        "tau falls by>",
    )
    for data, (weight, tvd, jsd, accuracy, falls) in WEN_TWIN.items():
        models = wen_models(data)
        yield f"| `{data}` | published | {weight:g} | {tvd:.3f} | {jsd:.3f} | {accuracy:.2f} | {falls:+.2f} |"
        twins = {name[2]: found for name, found in models.items() if name[2].startswith("adversary")}
        if not twins:
            yield missing(7, "wen", data).replace(f"--data {data}", f"--data {data} --ablations")
        for name, found in twins.items():
            change = tau_of(models["BiLSTM", "additive", "softmax"])["value"] - tau_of(found)["value"]
            label = name.replace("adversary", "found")
            yield (
                f"| `{data}` | {label} | {found['lambda']:g} | {number(found['tvd'], 3)} | "
                f"{number(found['jsd'], 3)} | {number(found['accuracy'])} | {change:+.2f} |"
            )
