"""Run the demo from end to end: data, models, an evaluation of their explanations, and a report."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import typer

from attnfaith.demo import sentences, steps
from attnfaith.demo.corpus import reviews
from attnfaith.demo.output_folder import demo_folder
from attnfaith.demo.planted import Planted, agreement_table
from attnfaith.demo.steps import MODELS, Plan
from attnfaith.errors import InputError
from attnfaith.escaping import visible
from attnfaith.evaluation.evaluator import Evaluator
from attnfaith.report.run_report import write_report
from attnfaith.validation import whole_number

TESTS = ("erasure", "single_weight")
VERDICT_LINES = 4
"""Lines of the verdict on a user's model that are shown in the terminal; the report has all."""


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
    """Evaluate the attention of two models that are trained by the demo, or of your own model, and write a report.

    By default a corpus of reviews with known decisive words is generated (`attnfaith.demo.corpus`), a FLAN and a HAN
    are trained on it and evaluated on held-out reviews, and every ranking is compared with the decisive words. With
    your own model and data these are evaluated and nothing is trained.

    The main results are printed. The folder holds the reports (``flan.html`` and ``han.html``, or ``report.html`` on
    your own model), ``figures`` (png), ``tables`` (csv), the ``runs`` (for `attnfaith.load_results`) and, by default,
    the ``models`` and the held-out reviews (``data``).

    Args:
        output: the folder: new, empty, or of an earlier demo, which is replaced.
        model: a classifier with its tokenizer: a path or a pipeline.
        data: its data, as for ``Evaluator.compute``.
        text_column: the column of texts.
        label_column: the column of labels, which are optional.
        seed: the seed of the corpus, the models, and all random draws.
        quiet: show no progress.

    Returns:
        The folder.
    """
    if (model is None) != (data is None):
        raise InputError("Pass model and data together, or neither of them for those of the demo.")
    seed = whole_number(seed, "seed", least=0)
    if model is None:
        lines = planted_demo(output, seed=seed, quiet=quiet)
    else:
        columns = {"input_column": text_column, "label_column": label_column}
        lines = own_demo(output, model, data, columns, seed=seed, quiet=quiet)
    typer.echo(visible("\n".join(lines), "\n"))
    return Path(output).expanduser()


def planted_demo(
    output: str | os.PathLike[str], *, seed: int = 0, quiet: bool = False, plan: Plan | None = None
) -> list[str]:
    """Run the demo on generated reviews; returns the main results in a few lines.

    Args:
        output: the folder.
        seed: the seed of everything.
        quiet: show no progress.
        plan: the size of the demo.
    """
    plan = Plan() if plan is None else plan
    lines: list[str] = []
    with demo_folder(output, {"seed": seed}) as folder, steps.one_thread(), steps.no_bars():
        steps.show_step(f"Writing {plan.reviews} reviews", quiet=quiet)
        rows = reviews(plan.reviews, seed=seed)
        held_out, planted = rows[: plan.held_out], Planted(rows[: plan.held_out])
        steps.write_lines(folder / "data" / "reviews.jsonl", (json.dumps(row, ensure_ascii=False) for row in held_out))
        for name, (display_name, preset) in MODELS.items():
            steps.show_step(f"Training a {display_name} on {plan.train} of them", quiet=quiet)
            model, tokenizer = steps.train(preset, rows[plan.held_out :], plan, seed=seed, quiet=quiet)
            steps.save_model(folder / "models" / name, model, tokenizer)
            steps.show_step(f"Evaluating its explanations of {plan.held_out} others", quiet=quiet)
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
            correct = results.table("texts")["correct"].fillna(False).astype(bool).tolist()
            agreement = agreement_table(
                explained, planted, counted=correct, **results.manifest["statistics"], seed=seed
            )
            steps.write_results(folder, name, results, agreement)
            write_report(
                results,
                folder / f"{name}.html",
                title=f"Can the attention of the demo's {display_name} be read as an explanation?",
                introduction=sentences.introduction(display_name, plan, seed, results, agreement),
            )
            lines += sentences.terminal_lines(display_name, results, agreement)
        return [*lines, *sentences.how_to_open([folder / f"{name}.html" for name in MODELS])]


def own_demo(
    output: str | os.PathLike[str], model: Any, data: Any, columns: dict[str, Any], *, seed: int, quiet: bool
) -> list[str]:
    """Run the demo on a user's own model and data; returns the main results in a few lines.

    Args:
        output: the folder.
        model: a classifier with its tokenizer.
        data: to evaluate it on.
        columns: the columns of the data.
        seed: the seed of all random draws.
        quiet: show no progress.
    """
    evaluator = Evaluator(model)
    settings = {"model": steps.source_name(model), "data": steps.source_name(data), **columns, "seed": seed}
    with demo_folder(output, settings, resume=True) as folder:
        steps.show_step("Evaluating its explanations", quiet=quiet)
        run = folder / "runs" / "model"
        results = evaluator.compute(data, **columns, tests=TESTS, seed=seed, output_dir=run, quiet=quiet)
        steps.write_results(folder, "model", results)
        report = results.to_html(folder / "report.html")
    return [*str(results.verdict).splitlines()[:VERDICT_LINES], *sentences.how_to_open([report])]
