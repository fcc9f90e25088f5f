"""The library's main job from end to end: data, models, an evaluation of their explanations, and a report."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import typer

from attnfaith.demo import examples, report, steps
from attnfaith.demo.corpus import reviews
from attnfaith.demo.output_folder import demo_folder
from attnfaith.demo.planted import Planted, agreement
from attnfaith.demo.steps import MODELS, Plan
from attnfaith.errors import InputError
from attnfaith.escaping import visible
from attnfaith.evaluation.evaluator import Evaluator
from attnfaith.validation import whole_number

TESTS = ("erasure", "single_weight")
LINES = 4
"""Of a verdict on a user's model, told in the terminal; the report has all."""


def run_demo(
    output: str | os.PathLike[str],
    *,
    model: Any = None,
    data: Any = None,
    text_column: str = "text",
    label_column: str | None = "label",
    seed: int = 0,
    quiet: bool = False,
) -> Path:
    """Evaluate the attention of two models that are trained on the spot, or of a model of yours; leave a report behind.

    By default a corpus of reviews is made in which it is known which words decide (`attnfaith.demo.corpus`), a FLAN and
    a HAN are trained on it and evaluated on reviews held out, and every ranking is compared with the planted words.
    With a model and data of yours these are evaluated; nothing is trained, and nothing is planted.

    What was found is told on standard output. The folder holds ``report.md``, ``figures`` (png), ``tables`` (csv), the
    ``runs`` (for `attnfaith.load_results`) and, by default, the ``models`` and the held-out reviews (``data``).

    Args:
        output: the folder: new, empty, or of an earlier demo, which is replaced.
        model: a classifier with its tokenizer: a path or a pipeline.
        data: its data, as for ``Evaluator.compute``.
        text_column: the data's column of texts.
        label_column: the data's column of labels; they are not needed.
        seed: of the corpus, the models, and all that is drawn.
        quiet: show no progress.

    Returns:
        The folder.
    """
    if (model is None) != (data is None):
        raise InputError("Pass model and data together, or neither of them for those of the demo.")
    seed = whole_number(seed, "seed", least=0)
    if model is None:
        told = planted_demo(output, seed=seed, quiet=quiet)
    else:
        columns = {"input_column": text_column, "label_column": label_column}
        told = own_demo(output, model, data, columns, seed=seed, quiet=quiet)
    folder = Path(output).expanduser()
    typer.echo(visible("\n".join([*told, f"The report is {folder / 'report.md'}"]), "\n"))
    return folder


def planted_demo(
    output: str | os.PathLike[str], *, seed: int = 0, quiet: bool = False, plan: Plan | None = None
) -> list[str]:
    """The demo on generated reviews; what was found, in a few lines.

    Args:
        output: the folder.
        seed: of everything.
        quiet: show no progress.
        plan: how large it is.
    """
    plan = Plan() if plan is None else plan
    told: list[str] = []
    sections: list[str] = []
    with demo_folder(output, {"seed": seed}) as folder, steps.one_thread(), steps.no_bars():
        steps.tell(f"Writing {plan.reviews} reviews", quiet=quiet)
        rows = reviews(plan.reviews, seed=seed)
        held_out, planted = rows[: plan.held_out], Planted(rows[: plan.held_out])
        steps.write(folder / "data" / "reviews.jsonl", (json.dumps(row, ensure_ascii=False) for row in held_out))
        for name, (spoken, preset) in MODELS.items():
            steps.tell(f"Training a {spoken} on {plan.train} of them", quiet=quiet)
            model, tokenizer = steps.train(preset, rows[plan.held_out :], plan, seed=seed, quiet=quiet)
            steps.keep(folder / "models" / name, model, tokenizer)
            steps.tell(f"Judging its explanations of {plan.held_out} others", quiet=quiet)
            evaluator = Evaluator(model, tokenizer)
            results = evaluator.compute(
                [dict(row) for row in held_out],
                explanations={"planted": planted},
                tests=TESTS,
                seed=seed,
                output_dir=folder / "runs" / name,
                quiet=quiet,
            )
            explained = steps.explain(results, evaluator.cut, tokenizer, [row["text"] for row in held_out])
            right = results.table("texts")["correct"].fillna(False).astype(bool).tolist()
            agreed = agreement(explained, planted, of=right, **results.manifest["statistics"], seed=seed)
            steps.leave(folder, name, results, agreed)
            shown = examples.planted(results, explained, planted, held_out)
            sections += report.section(name, f"The {spoken}", results, shown, agreed)
            told += report.told(spoken, results, agreed)
        lines = [*report.introduction(plan, seed), *sections, *report.how_to_go_on([*MODELS], yours=False)]
        steps.write(folder / "report.md", lines)
    return told


def own_demo(
    output: str | os.PathLike[str], model: Any, data: Any, columns: dict[str, Any], *, seed: int, quiet: bool
) -> list[str]:
    """The demo on a user's own model and data; what was found, in a few lines.

    Args:
        output: the folder.
        model: a classifier with its tokenizer.
        data: to evaluate it on.
        columns: of the data.
        seed: of what is drawn.
        quiet: show no progress.
    """
    evaluator = Evaluator(model)
    settings = {"model": steps.said(model), "data": steps.said(data), **columns, "seed": seed}
    with demo_folder(output, settings, resume=True) as folder:
        steps.tell("Judging its explanations", quiet=quiet)
        run = folder / "runs" / "model"
        results = evaluator.compute(data, **columns, tests=TESTS, seed=seed, output_dir=run, quiet=quiet)
        steps.leave(folder, "model", results)
        shown = examples.of_yours(results, evaluator, data, columns["input_column"])
        lines = ["# Can the attention of this model be read as an explanation?", ""]
        lines += report.section("model", "What was found", results, shown)
        steps.write(folder / "report.md", [*lines, *report.how_to_go_on(["model"], yours=True)])
    return str(results.verdict).splitlines()[:LINES]
