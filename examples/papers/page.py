"""Write the tables of docs/reproductions.md and docs/concepts/judge.md from stored results.

python -m examples.papers.page runs/
python -m examples.papers.page

With a folder, the results of the scripts in it are stored in docs/reproductions/ first. A table stands between two
marks, ``<!-- table: NAME -->`` and ``<!-- end -->``; what is around it is written by hand. A row whose result is not
stored says so, with the command.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np

from examples.papers.tables import STORED, command, head, missing, number, per_cent, stored
from examples.papers.wen_tables import wen, wen_fixed, wen_gumbel, wen_means, wen_twin

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (DOCS / "reproductions.md", DOCS / "concepts" / "judge.md")
MARK = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)

JAIN = {  # table 2: data, class: BiLSTM gradient, average gradient, BiLSTM leave-one-out
    "hockey_baseball": {"class=0": (0.07, 0.79, 0.06), "class=1": (0.21, 0.75, 0.20)},
    "ag_news": {"class=0": (0.36, 0.78, 0.30), "class=1": (0.42, 0.76, 0.43)},
    "babi1": {"all": (0.25, 0.72, 0.16)},
    "babi2": {"all": (-0.02, 0.68, -0.01)},
    "snli": {"class=0": (0.31, 0.59, 0.16), "class=1": (0.33, 0.58, 0.36), "class=2": (0.31, 0.57, 0.34)},
    "imdb": {"class=0": (0.44, 0.67, 0.34), "class=1": (0.43, 0.68, 0.34)},
}
JAIN_ACCURACY = {"hockey_baseball": 0.92, "ag_news": 0.96, "babi1": 0.98, "babi2": 0.74, "snli": 0.78, "imdb": 0.90}
"""Of the BiLSTM with additive attention, as Wen et al. (table 1) have it."""
COLUMNS = (("BiLSTM", "gradient"), ("average", "gradient"), ("BiLSTM", "leave-one-out"))
SERRANO = {  # table 3 in per cent; table 2 (HANrnn): both, only the top one, only the drawn one, neither
    "imdb": ((50.3, 48.9, 46.1, 49.1, 48.2, 45.4), (2.2, 12.2, 1.4, 84.2)),
    "imdb_stars": ((50.3, 48.9, 46.1, 49.1, 48.2, 45.4), (2.2, 12.2, 1.4, 84.2)),
    "yelp5": ((63.0, 61.0, 58.6, 62.3, 60.7, 58.2), (1.5, 8.9, 1.9, 87.7)),
}
SIX = ("HANrnn", "HANconv", "HANnoenc", "FLANrnn", "FLANconv", "FLANnoenc")
NEAR = 0.05


def jain_wallace():
    yield from head("data", "", "class", "published>", "found>", "lowest and highest end", "difference")
    for data, classes in JAIN.items():
        results = stored(f"jain_wallace-{data}")
        if results is None:
            yield missing(7, "jain_wallace", data)
            continue
        runs = {name: value["result"] for name, value in results["values"].items()}
        for column, (encoder, measure) in enumerate(COLUMNS):
            for part, published in classes.items():
                lines = [run.get(f"{measure} {part}") for name, run in runs.items() if name.startswith(encoder)]
                lines = [line["tau"] for line in lines if line is not None]
                if not lines:
                    continue
                found, was = float(np.mean([line["value"] for line in lines])), published[column]
                ends = f"{min(line['low'] for line in lines):.2f} to {max(line['high'] for line in lines):.2f}"
                mark = "" if abs(found - was) <= NEAR else " !"
                label = part.removeprefix("class=")
                yield (
                    f"| `{data}` | {encoder} {measure} | {label} | {was:.2f} | {found:.2f} | {ends} | "
                    f"{found - was:+.2f}{mark} |"
                )


def jain_wallace_experiments(data):
    """Tau with the gradient where one thing is changed, class by class in one cell."""
    yield from head("encoder", "changed", "published>", "found>", "change of the output when shuffled>", "accuracy>")
    classes, results = JAIN[data], stored(f"jain_wallace-{data}") or {"values": {}}
    ran = False
    for name, run in results["values"].items():
        kind, _, change = name.partition("/")
        if kind == "drawn average":
            encoder, change = "average", "words without a vector begin with drawn numbers (all test texts)"
        elif kind.startswith("experiment "):
            encoder, ran = kind.removeprefix("experiment "), True
        else:
            continue
        found, column = run["result"], [encoder for encoder, _ in COLUMNS].index(encoder)
        taus = [found.get(f"gradient {part}") for part in classes]
        cells = " / ".join("" if line is None else f"{line['tau']['value']:.2f}" for line in taus)
        published = " / ".join(f"{values[column]:.2f}" for values in classes.values())
        yield (
            f"| {encoder} | {change} | {published} | {cells} | {number(found['median_tvd'])} | "
            f"{number(found['accuracy'])} |"
        )
    if not ran:
        yield missing(6, "jain_wallace", data).replace(f"--data {data}", f"--data {data} --experiments")


def jain_wallace_runs():
    yield from head("data", "command", "models>", "accuracy of a BiLSTM: published>", "found>")
    for data in JAIN:
        results = stored(f"jain_wallace-{data}")
        if results is not None:
            values = {name: run for name, run in results["values"].items() if not name.startswith("experiment ")}
            accuracy = [run["result"]["accuracy"] for name, run in values.items() if name.startswith("BiLSTM")]
            found = ", ".join(number(line) for line in accuracy)
            yield f"| `{data}` | {command(results)} | {len(values)} | {JAIN_ACCURACY[data]:.2f} | {found} |"


def jain_wallace_counterfactual():
    yield from head(
        "data",
        "encoder",
        "change of the output when shuffled (median, TVD)>",
        "divergence of adversarial attention (mean, nats)>",
        "the largest there is>",
    )
    for data in JAIN:
        results = stored(f"jain_wallace-{data}")
        for name, run in results["values"].items() if results else ():
            if name.endswith("/0"):
                found = run["result"]
                exact = number(found["js_mean_exact"]) if "js_mean_exact" in found else "not known exactly"
                cells = [number(found[figure]) for figure in ("median_tvd", "js_mean")]
                yield f"| `{data}` | {name[:-2]} | {' | '.join(cells)} | {exact} |"


def serrano_smith(data):
    published = SERRANO[data]
    yield from head(
        "model",
        "accuracy: published>",
        "found>",
        "gradient first : attention first>",
        "only the top item flips, %>",
        "only the drawn one, %>",
        "flips after: attention>",
        "gradient>",
        "product>",
        "random>",
        "smallest set>",
    )
    results = stored(f"serrano_smith-{data}") or {"values": {}}
    if not results["values"]:
        yield missing(11, "serrano_smith", data)
    rows = dict(zip(SIX, published[0], strict=True))
    rows |= {name: rows[name.partition(",")[0]] for name in results["values"] if name not in rows}
    for preset, accuracy in rows.items():
        if f"{preset}, rate × 10" in results["values"] and preset not in results["values"]:
            continue
        if preset not in results["values"]:
            if results["values"]:
                yield f"| {preset} | {accuracy} | *not run yet* |" + " |" * 8
            continue
        found = results["values"][preset]["result"]
        wins, losses = found["gradient wins"]["value"], found["gradient losses"]["value"]
        ratio = f"{100 * wins:.0f} : {100 * losses:.0f} = {wins / losses:.1f}" if losses else f"{100 * wins:.0f} : 0"
        fractions = [
            f"{100 * found[f'{ranking} mean_fraction']['value']:.0f}"
            for ranking in ("attention", "gradient", "gradient_x_attention", "random", "optimal")
        ]
        yield (
            f"| {preset} | {accuracy} | {per_cent(found['accuracy'])} | {ratio} | {per_cent(found['only_top'])} | "
            f"{per_cent(found['only_drawn'])} | {' | '.join(fractions)} |"
        )
    if results["values"]:
        yield from ("", f"Run: {command(results)}.")


def serrano_smith_optimum(data):
    yield from head(
        "model", "attention>", "gradient>", "gradient x attention>", "random>", "skill of attention>", "verdict"
    )
    results = stored(f"serrano_smith-{data}") or {"values": {}}
    if not results["values"]:
        yield missing(7, "serrano_smith", data)
    for preset, run in results["values"].items():
        found = run["result"]
        cells = [
            number(found[f"{name} efficiency"]) for name in ("attention", "gradient", "gradient_x_attention", "random")
        ]
        yield f"| {preset} | {' | '.join(cells)} | {number(found['skill'])} | {found['verdict']} |"


DIAGNOSED = {  # of the estimates of a diagnosis, those that the page shows
    ("uniform", "accuracy"): "accuracy, attention {of}",
    ("uniform", "accuracy_difference"): "difference",
    ("seeds", "jsd"): "divergence of attention between seeds (median, nats){of}",
    ("seeds", "jsd_uniform"): "from uniform attention",
    ("seeds", "tvd"): "distance of outputs between seeds (TVD){of}",
    ("probe", "accuracy"): "accuracy of a classifier of single words, weights: {of}",
    ("adversary", "tvd"): "distance of outputs (TVD), {of}",
    ("adversary", "jsd"): "divergence of attention (mean, nats), {of}",
    ("adversary", "accuracy"): "accuracy, {of}",
}


def wiegreffe_pinter():
    sets = ("sst2", "imdb")
    every = {data: stored(f"wiegreffe_pinter-{data}") for data in sets}
    yield from head("diagnostic", "estimate", *(f"`{data}`>" for data in sets))
    rows = {}
    for data, results in every.items():
        for row in results["values"]["diagnosis"]["result"]["estimates"] if results else ():
            of, key = row["of"] or "", (row["diagnostic"], row["figure"])
            shown = key in DIAGNOSED and row["value"] is not None and not np.isnan(row["value"])
            if shown and not (of.startswith("seed ") or (of == "uniform" and key[0] == "adversary")):
                rows.setdefault((key[0], DIAGNOSED[key].format(of=of)), {})[data] = number(row, 3)
    for (diagnostic, label), cells in rows.items():
        yield f"| {diagnostic} | {label} | {' | '.join(cells.get(data, '') for data in sets)} |"
    yield from (missing(4, "wiegreffe_pinter", data) for data, results in every.items() if not results)
    for data, results in every.items():
        if results:
            yield from ("", f"`{data}`: {command(results)}.")


def pruthi():
    yield from head(
        "model",
        "weight of the penalty>",
        "accuracy>",
        "attention on impermissible tokens>",
        "AUPRC of attention>",
        "of the gradient>",
        "of gradient x attention>",
        "of a random order>",
    )
    results = stored("pruthi-sst_wiki") or {"values": {}}
    if not results["values"]:
        yield missing(8, "pruthi", "sst_wiki")
        return
    for name, run in results["values"].items():
        found, (encoder, weight) = run["result"], name.split("/")
        rankings = ("attention", "gradient", "gradient_x_attention", "random")
        cells = " | ".join(f"{found[f'{ranking} auprc']['value']:.2f}" for ranking in rankings)
        mass = found["mass"]
        ends = f"{mass['value']:.2g} [{mass['low']:.2g}, {mass['high']:.2g}]"
        yield f"| {encoder} | {weight} | {per_cent(found['accuracy'])} | {ends} | {cells} |"
    if not any(name.startswith("BiLSTM") for name in results["values"]):
        yield missing(8, "pruthi", "sst_wiki").replace("`sst_wiki`", "BiLSTM", 1)
    yield from ("", f"Run: {command(results)}.")


def judge(kind):
    """Shares of right order of each figure."""
    results = stored("judge")
    if results is None:
        yield "*Not run yet:* `python -m benchmarks.judge --store docs/reproductions/judge.json`"
        return
    rows = [row for row in results["shares"] if row["kind"] == kind]
    cells = sorted({(row["difficulty"], row["texts"]) for row in rows})
    titles = [f"{difficulty}, {texts} texts" for difficulty, texts in cells]
    yield "| figure | " + " | ".join(f"{title}: near | far" for title in titles) + " |"
    yield "|---|" + "---:|---:|" * len(cells)
    lookup = {(row["figure"], row["difficulty"], row["texts"], row["steps"]): row for row in rows}
    figures = list(dict.fromkeys(row["figure"] for row in rows))

    def share(figure, cell, steps):
        row = lookup[figure, *cell, steps]
        return "" if row["share"] is None else f"{100 * row['share']:.0f}"

    def mean(figure):
        values = [row["share"] for row in rows if row["figure"] == figure and row["share"] is not None]
        return -float(np.mean(values))

    for figure in sorted(figures, key=mean):
        test, _, name = figure.partition(": ")
        shares = [share(figure, cell, steps) for cell in cells for steps in (1, 2)]
        yield f"| {test}: `{name.replace(', ', '` with `')}` | {' | '.join(shares)} |"


def judge_labels():
    """How often each label was given to models of each grade."""
    results = stored("judge")
    if results is None:
        yield "*Not run yet:* `python -m benchmarks.judge --store docs/reproductions/judge.json`"
        return
    names = [name for name in results["labels"][0]["labels"] if any(row["labels"][name] for row in results["labels"])]
    yield "| | texts | attention follows importance | " + " | ".join(names) + " |"
    yield "|---|---:|---:|" + "---:|" * len(names)
    for row in results["labels"]:
        counts = " | ".join(str(row["labels"][name] or "") for name in names)
        yield f"| {row['difficulty']} | {row['texts']} | {100 * row['share']:.0f} % | {counts} |"


TABLES = {
    "jain_wallace": jain_wallace,
    "jain_wallace_experiments-ag_news": lambda: jain_wallace_experiments("ag_news"),
    "jain_wallace_experiments-hockey_baseball": lambda: jain_wallace_experiments("hockey_baseball"),
    "jain_wallace_experiments-imdb": lambda: jain_wallace_experiments("imdb"),
    "jain_wallace_experiments-snli": lambda: jain_wallace_experiments("snli"),
    "jain_wallace_runs": jain_wallace_runs,
    "jain_wallace_counterfactual": jain_wallace_counterfactual,
    "serrano_smith-imdb": lambda: serrano_smith("imdb"),
    "serrano_smith-imdb_stars": lambda: serrano_smith("imdb_stars"),
    "serrano_smith_optimum-imdb_stars": lambda: serrano_smith_optimum("imdb_stars"),
    "serrano_smith-yelp5": lambda: serrano_smith("yelp5"),
    "serrano_smith_optimum-imdb": lambda: serrano_smith_optimum("imdb"),
    "serrano_smith_optimum-yelp5": lambda: serrano_smith_optimum("yelp5"),
    "wen": wen,
    "wen_means": wen_means,
    "wen_gumbel": wen_gumbel,
    "wen_fixed": wen_fixed,
    "wen_twin": wen_twin,
    "wiegreffe_pinter": wiegreffe_pinter,
    "pruthi": pruthi,
    "judge-rankings": lambda: judge("rankings"),
    "judge-models": lambda: judge("models"),
    "judge-labels": judge_labels,
}


def written(page):
    """A page with its tables made from what is stored."""
    return MARK.sub(lambda match: "\n".join([match[1], *TABLES[match[2]](), "", match[3]]), page)


def main():
    for folder in sys.argv[1:]:
        for path in sorted(Path(folder).glob("*/results.json")):
            if not path.parent.name.endswith("-demo"):
                STORED.mkdir(exist_ok=True)
                (STORED / f"{path.parent.name}.json").write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    for path in PAGES:
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
