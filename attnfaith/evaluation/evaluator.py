"""The `Evaluator`: a classifier and a data set in, results out."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from attnfaith import validation
from attnfaith.adapters.cut import Cut, cut
from attnfaith.attribution.method import MethodOptions
from attnfaith.attribution.model_loading import load_model, positive_int
from attnfaith.data.labels import ModelLabels
from attnfaith.data.source import DataSource, open_data
from attnfaith.errors import InputError
from attnfaith.estimates.summary_table import MOST_RESAMPLES
from attnfaith.evaluation.batch import RunConfig
from attnfaith.evaluation.dry_run import dry_run, first_text
from attnfaith.evaluation.processes import Processes
from attnfaith.evaluation.rankings import Explain
from attnfaith.evaluation.results import Results
from attnfaith.evaluation.run_manifest import counts_of, run_conditions
from attnfaith.evaluation.runner import SHARD, Runner, encode
from attnfaith.evaluation.tests.base import Test, resolve_tests
from attnfaith.evaluation.tests.base import tests as tests_by_name
from attnfaith.evaluation.token_hiding import WAYS
from attnfaith.functional.decision import KINDS, OUTPUTS, Decision, decision_of
from attnfaith.progress import counting
from attnfaith.storage.fingerprint import fingerprint_model, fingerprint_tokenizer
from attnfaith.storage.run_store import Store
from attnfaith.storage.schema import check_conditions, check_manifest
from attnfaith.text.encoder import TextEncoder, special_ids_of

MOST_STEPS = 10**6
LONGEST = 4096
"""Tokens at which texts are cut off for a model that sets no limit itself."""


class Evaluator:
    """Judges the explanations of a classifier on a data set.

    Args:
        model: a classifier, the path of one, a Transformers text-classification pipeline, or a `Cut`.
        tokenizer: taken from the path or pipeline where there is one.
        decision: "multiclass", "sigmoid", "multilabel" or "regression", where the configuration does not say.
        tolerance: for a regression, the change of the predicted value that counts as another decision.
        max_length: texts longer than this many tokens are cut off (and counted); by default what the model takes, and
            4096 for a model without limit.
        device: where a model that is loaded from a path goes; by default where accelerate puts it.

    Example:
        >>> import attnfaith as af
        >>> texts = ["a fine film", "a dull film", "fine acting", "a dull plot"] * 10
        >>> tokenizer = af.models.WordTokenizer.train(texts, min_count=1)
        >>> model = af.models.from_preset("FLANnoenc", num_labels=2, tokenizer=tokenizer)
        >>> results = af.Evaluator(model, tokenizer).compute([{"text": text} for text in texts])
        >>> len(results.table("erasure")) == 40 * 8  # seven rankings and the exact optimum
        True
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        decision: str | None = None,
        tolerance: float | None = None,
        max_length: int | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        self.processes = Processes()
        if decision is not None:
            validation.one_of(decision, KINDS, "decision")
        if tolerance is not None:
            tolerance = validation.number(tolerance, "tolerance", above=0)
        positive_int(max_length, "max_length")
        loaded, tokenizer = load_model(model, tokenizer)
        if not isinstance(model, str | os.PathLike) and device is not None:
            raise InputError("device= goes with the path of a model; move a model that you loaded yourself with .to().")
        if isinstance(model, str | os.PathLike):
            if device is not None:
                _check_device(device)
            loaded = loaded.to(self.processes.device if device is None else device)
        if tokenizer is None:
            raise InputError("An Evaluator reads texts: pass the model's tokenizer as the second argument.")
        self.cut = loaded if isinstance(loaded, Cut) else cut(loaded)
        self.tokenizer = tokenizer
        self.kind, self.tolerance = decision, tolerance
        self.texts = TextEncoder(tokenizer, self.cut.model, max_length)
        if self.texts.max_length is None:
            self.texts = TextEncoder(tokenizer, self.cut.model, LONGEST)

    def compute(
        self,
        data: Any,
        *,
        subset: str | None = None,
        split: str | None = None,
        input_column: str = "text",
        second_input_column: str | None = None,
        label_column: str | None = "label",
        label_mapping: Mapping[str, int] | None = None,
        rationale_column: str | None = None,
        rankings: str | Sequence[str] = "all",
        explanations: Mapping[str, Explain] | None = None,
        level: str | None = None,
        tests: str | Sequence[str | Test] = ("erasure", "single_weight"),
        target: str | int = "predicted",
        output: str | None = None,
        steps: int | None = None,
        hide: str | None = None,
        special_tokens: str = "include",
        protect_deciding: bool = False,
        batch_size: int = 32,
        seed: int = 0,
        random_state: int | None = None,
        n_resamples: int = 9999,
        confidence_level: float = 0.95,
        output_dir: str | os.PathLike[str] | None = None,
        quiet: bool = False,
    ) -> Results:
        """Run tests over a data set; interrupted, the same call goes on where it stopped.

        Args:
            data: a `datasets.Dataset` (or dictionary of them, or a stream), a DataFrame, a list of dicts, or a path to
                csv, tsv, json lines or parquet.
            subset: the configuration of a data set that is loaded by name.
            split: the part of it.
            input_column: the column of texts.
            second_input_column: that of second texts, for pairs.
            label_column: that of labels; they are not needed, and left out where there is no such column.
            label_mapping: from a label in the data to a class's number or name in the model; or, as in ``evaluate``,
                from every name in the model to what stands for it in the data.
            rationale_column: that of what people marked, for the test "rationales": 0 or 1 for each word, ranges of
                characters, or numbers of words.
            rankings: "all", or names of methods: "gradient" wherever there is one, "input/gradient" for one.
            explanations: rankings of yours by name: a column with a list of scores, or a function from a text as the
                model reads it (tokens, words, offsets ...) to scores.
            level: where to erase: "attention", "input" or "both"; None for "attention" on a HAN or FLAN, else "both".
            tests: "all", or names, or tests with options, such as ``af.tests.Erasure(bounds=True)``.
            target: the class explained: "predicted", "gold", a number or a name.
            output: what of it is explained: "probability", "logit" or "log_odds"; by default each method's own.
            steps: points of integrated paths; by default each level's own number.
            hide: how tokens are hidden at the input level: "attention_mask" (the default where it hides anything),
                "mask_token", "pad", "zero" or "delete".
            special_tokens: "include" them among the items, or "protect" them: then they are never erased.
            protect_deciding: never hide the token whose position decides, at the input level; some models and ways of
                hiding need this, and the notes of the run say so.
            batch_size: texts in a batch; fewer while memory runs out. It changes no number.
            seed: of random rankings, draws, and resamples.
            random_state: another name of ``seed``.
            n_resamples: resamples of the texts behind every interval.
            confidence_level: of the intervals.
            output_dir: where results are written as they are made; a temporary folder by default.
            quiet: show no progress.

        Returns:
            `Results`; print them.
        """
        seed = validation.whole_number(seed if random_state is None else random_state, "seed", least=0, most=2**64 - 1)
        reading: dict[str, Any] = {
            "subset": None if subset is None else validation.text(subset, "subset"),
            "split": None if split is None else validation.text(split, "split"),
            "input_column": validation.column(input_column, "input_column"),
            "second_input_column": _column(second_input_column, "second_input_column"),
        }
        yours = _explanations(explanations)
        rankings = validation.several(rankings, "rankings")
        batch_size = validation.whole_number(batch_size, "batch_size", least=1)
        quiet = validation.flag(quiet, "quiet")
        if output_dir is not None:
            output_dir = validation.path(output_dir, "output_dir")
            Store.refuse_unusable(output_dir)
        validation.one_of(hide, (None, *WAYS), "hide")
        validation.one_of(level, (None, "attention", "input", "both"), "level")
        chosen, statistics = resolve_tests(tests), _statistics(n_resamples, confidence_level)
        decision, classes = self._decision(data, reading)
        scored = tuple(source for source in yours.values() if isinstance(source, str))
        setup = RunConfig(
            self.cut,
            decision,
            self._settings(seed, positive_int(steps, "steps", most=MOST_STEPS)),
            output=validation.one_of(output, (None, *OUTPUTS), "output"),
            special_tokens=validation.one_of(special_tokens, ("include", "protect"), "special_tokens"),
            protect_deciding=validation.flag(protect_deciding, "protect_deciding"),
        )
        space = ModelLabels(setup.decision.kind, tuple(self._names), classes)
        reading["label_column"] = _column(label_column, "label_column")
        reading["label_mapping"] = validation.mapping(
            label_mapping,
            "label_mapping",
            lambda label: isinstance(label, str | int | float),
            "labels and classes, each a name or a number",
        )
        _column(rationale_column, "rationale_column")
        if rationale_column is not None and not any("rationale_column" in test.reads for test in chosen):
            readers = " or ".join(
                repr(name) for name, kind in tests_by_name.items() if "rationale_column" in kind.reads
            )
            raise InputError(f"Only the test {readers} reads a rationale_column. Run it too, or leave the column out.")
        reading["rationale_column"] = rationale_column
        source = open_data(data, **reading, score_columns=scored, labels=space)
        setup = replace(setup, target=self._target(target, space, source))
        trial, setup, notes = dry_run(
            first_text(setup, self.texts, source),
            self.texts,
            level=level,
            rankings=rankings,
            explanations=yours,
            hide=hide,
            tests=chosen,
        )
        manifest = run_conditions(
            setup,
            chosen,
            trial,
            prints={"model": fingerprint_model(self.cut.model), "tokenizer": fingerprint_tokenizer(self.tokenizer)},
            columns={
                "text": input_column,
                "second text": second_input_column,
                "label": label_column if source.labelled else None,
                "rationale": rationale_column,
                "scores": list(scored),
            },
            max_length=self.texts.max_length,
            statistics=statistics,
            notes=[*source.notes, *notes],
        )
        runner = Runner(setup, self.texts, chosen, batch_size)
        return self._run(runner, source, manifest, output_dir, quiet=quiet)

    def _run(
        self, runner: Runner, source: DataSource, manifest: dict[str, Any], output_dir: Any, *, quiet: bool
    ) -> Results:
        """The loop, in this process and the others; the first one opens and closes the files."""
        processes, temporary = self.processes, None
        manifest |= {"shard_size": SHARD, "rows": source.rows}
        check_conditions(manifest)
        if output_dir is None:
            temporary = tempfile.TemporaryDirectory(prefix="attnfaith-")
            output_dir = processes.agreed(temporary.name)
        with processes.first():
            store = Store.open(output_dir, manifest)
        index, count = processes.index, processes.count
        with counting("evaluating", source.rows, quiet=quiet or index > 0) as advance:
            runner.run(source, store, lambda rows: advance(rows * count), index=index, of=count)
        processes.wait()
        with processes.first():
            if index == 0 and not store.complete:
                seed = runner.setup.settings.seed
                for test in runner.tests:
                    for name, table in test.conclude(store, seed=seed, quiet=quiet).items():
                        store.conclude(name, table)
                store.finish(counts_of(store))
        return Results(Store.load(output_dir, check_manifest), temporary)

    @property
    def _config(self) -> Any:
        return getattr(self.cut.model, "config", None)

    @property
    def _names(self) -> list[str]:
        names = getattr(self._config, "id2label", None) or {}
        return [str(name) for _, name in sorted(names.items())][: self._classes]

    @property
    def _classes(self) -> int | None:
        count = getattr(self._config, "num_labels", None)
        return count if isinstance(count, int) and count > 0 else None

    def _settings(self, seed: int, steps: int | None) -> MethodOptions:
        return MethodOptions(
            steps=steps,
            seed=seed,
            pad_id=getattr(self._config, "pad_token_id", None),
            mask_id=getattr(self.tokenizer, "mask_token_id", None),
            special_ids=special_ids_of(self._config, self.tokenizer),
        )

    def _decision(self, data: Any, reading: Mapping[str, Any]) -> tuple[Decision, int]:
        """How the model decides, and between how many classes; a model that does not say so is tried on a text."""
        count = self._classes
        if count is None:
            encoded, aside = encode(self.texts, next(iter(open_data(data, **reading, label_column=None).shards(1)))[1])
            if aside:
                raise InputError(f"The first text cannot be classified: {aside[0]}.")
            count = self.cut.capture(**self.texts.collate([encoded[0]])).logits.shape[-1]
        decision = decision_of(self._config, count, self.kind, self.tolerance)
        if decision.kind == "regression" and decision.tolerance is None:
            decision.flips(torch.zeros(1), torch.zeros(1))  # says what is missing
        return decision, count

    def _target(self, given: str | int, space: ModelLabels, source: DataSource) -> str | int:
        if not isinstance(given, str):
            given = validation.whole_number(given, "target ('predicted', 'gold', a class's number or name)")
        if given == "gold" and (not source.labelled or space.kind not in ("multiclass", "sigmoid")):
            raise InputError("target='gold' needs a column of labels, and a model that decides between classes.")
        if given in ("predicted", "gold"):
            return given
        number = space.names.index(given) if given in space.names else given
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < max(space.classes, 1):
            known = f" or one of {', '.join(space.names)}" if space.names else ""
            raise InputError(
                f"Expected target to be 'predicted', 'gold', 0..{space.classes - 1}{known}; got "
                f"{validation.short_repr(given)}."
            )
        return number


def _statistics(n_resamples: Any, confidence_level: Any) -> dict[str, Any]:
    return {
        "n_resamples": validation.whole_number(n_resamples, "n_resamples", least=1, most=MOST_RESAMPLES),
        "confidence_level": validation.share(confidence_level, "confidence_level"),
    }


def _column(given: Any, name: str) -> Any:
    return None if given is None else validation.column(given, name)


def _explanations(given: Any) -> dict[str, Explain]:
    wanted = "names of rankings and, for each, the name of a column of scores or a function from a text to scores"
    found = validation.mapping(given, "explanations", lambda one: isinstance(one, str) or callable(one), wanted) or {}
    for name in found:
        validation.text(name, "a name in explanations")
    return found


def _check_device(device: Any) -> None:
    try:
        torch.empty(0, device=device)
    except Exception as error:  # what is raised differs from backend to backend
        reason = str(error).partition("\n")[0]
        raise InputError(f"The device {validation.short_repr(device)} cannot be used: {reason}") from error
