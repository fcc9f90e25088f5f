"""`Evaluator`: run tests of explanations for one classifier over a data set."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from attnfaith import validation
from attnfaith.adapters.cut import Cut, cut
from attnfaith.attribution.model_loading import load_model
from attnfaith.attribution.request import MethodOptions
from attnfaith.data.labels import ModelLabels
from attnfaith.data.source import DataOptions, DataSource
from attnfaith.errors import InputError
from attnfaith.evaluation import stored_texts
from attnfaith.evaluation.batch import RunConfig
from attnfaith.evaluation.dry_run import dry_run, first_text, levels_of
from attnfaith.evaluation.keyed_sample import read_sample
from attnfaith.evaluation.manifest_schema import check_manifest, check_new_manifest
from attnfaith.evaluation.processes import Processes
from attnfaith.evaluation.profile import Profile
from attnfaith.evaluation.rankings import DEFAULT, Explain
from attnfaith.evaluation.results import Results
from attnfaith.evaluation.run_manifest import finish, part_entry, run_manifest
from attnfaith.evaluation.run_options import RankingOptions, RunOptions, data_options_of
from attnfaith.evaluation.run_progress import RunProgress, sample_of
from attnfaith.evaluation.runner import Runner, encode
from attnfaith.evaluation.sampling import BATCH, KEYED, SHARD, Sampling
from attnfaith.evaluation.tests.base import DefaultTests, Test, resolve_tests
from attnfaith.evaluation.tests.erasure.test import Erasure
from attnfaith.evaluation.unfinished_shard import PIECE_SECONDS
from attnfaith.explanations.explained import Explained
from attnfaith.functional.decision import KINDS, Decision, decision_of
from attnfaith.parameter_names import parameter
from attnfaith.progress import ProgressLog
from attnfaith.storage.fingerprint import fingerprint_model, fingerprint_tokenizer
from attnfaith.storage.manifest import SAMPLE, rows_of
from attnfaith.storage.run_store import Store
from attnfaith.text.encoder import TextEncoder, special_ids_of

DEFAULT_MAX_LENGTH = 4096
"""The length in tokens at which texts are truncated for a model without a limit of its own."""


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

    Attributes:
        shard_size: rows of the data that are stored in one file of each table.
        piece_seconds: after this time at most, what is finished of a shard is written, so that it is not lost when the
            run is killed. A batch that takes longer is written when it is done.
        progress: of the last run: its forecast; None before the first.
        profile: what took the time of the last run; None before the first.

    Example:
        >>> import attnfaith as af
        >>> texts = ["a fine film", "a dull film", "fine acting", "a dull plot"] * 10
        >>> tokenizer = af.models.WordTokenizer.train(texts, min_count=1)
        >>> model = af.models.from_preset("FLANnoenc", num_labels=2, tokenizer=tokenizer)
        >>> results = af.Evaluator(model, tokenizer).compute([{"text": text} for text in texts])
        >>> len(results.table("erasure")) == 40 * 8  # seven rankings and the exact optimum
        True
    """

    shard_size: int = 256
    piece_seconds: float = PIECE_SECONDS
    progress: RunProgress | None = None
    profile: Profile | None = None

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
        validation.positive_int(max_length, "max_length")
        loaded, tokenizer = load_model(model, tokenizer)
        if not isinstance(model, str | os.PathLike) and device is not None:
            raise InputError(
                f"{parameter('device')} is for a model that is given by its path. Move a model that you loaded "
                "yourself with model.to(device)."
            )
        if isinstance(model, str | os.PathLike):
            if device is not None:
                _check_device(device)
            loaded = loaded.to(self.processes.device if device is None else device)
        if tokenizer is None:
            raise InputError(
                "An Evaluator reads texts: pass the model's tokenizer as the second argument.", code="wrong-tokenizer"
            )
        self.cut = loaded if isinstance(loaded, Cut) else cut(loaded)
        self.tokenizer = tokenizer
        self.kind, self.tolerance = decision, tolerance
        self.encoder = TextEncoder(tokenizer, self.cut.model, max_length)
        if self.encoder.max_length is None:
            self.encoder = TextEncoder(tokenizer, self.cut.model, DEFAULT_MAX_LENGTH)

    def compute(
        self,
        data: Any,
        *,
        subset: str | None = None,
        split: str | None = None,
        input_column: str = "text",
        second_input_column: str | None = None,
        label_column: str | None = "label",
        label_mapping: Mapping[str, Any] | None = None,
        rationale_column: str | None = None,
        rankings: str | Sequence[str] | None = "default",
        explanations: Mapping[str, Explain] | None = None,
        level: str | None = None,
        tests: str | Sequence[str | Test] | None = None,
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
        precision: float | None = None,
        max_texts: int | None = None,
        output_dir: str | os.PathLike[str] | None = None,
        store_texts: bool = True,
        quiet: bool = False,
        part: tuple[int, int] | None = None,
    ) -> Results:
        """Run tests over a data set. After an interruption, the same call continues where the run stopped.

        Args:
            data: a `datasets.Dataset` (or dictionary of them, or a stream), a DataFrame, a list of dicts or of texts,
                or a path or address (``s3://...``) of csv, tsv, json lines or parquet.
            subset: the configuration of a data set that is loaded by name.
            split: a split of the data, or a part of one.
            input_column: the column of texts.
            second_input_column: the column of second texts, for pairs.
            label_column: the column of labels. Labels are optional, and are left out if there is no such column.
            label_mapping: ``{class in the model: label in the data}``, as in ``evaluate``.
            rationale_column: the column of what people marked, for the test "rationales": 0 or 1 for each word, ranges
                of characters, or the numbers of words.
            rankings: "default" (or None) for those that are worth their passes through the model; "all"; or names of
                methods: "gradient" at every level that has it, "input/gradient" at one. A list may hold both:
                ``["default", "omission"]``.
            explanations: your own rankings by name: a column with a list of scores, a function from a text as the
                model reads it (tokens, words, offsets ...) to scores, or explanations of another library by
                `attnfaith.explanations`.
            level: where items are erased: "attention", "input" or "both"; None for "attention" on a HAN or FLAN, else
                "both".
            tests: "all", or names, or tests with options, such as ``af.tests.Erasure(bounds=True)``; None for "erasure"
                and "single_weight", and "in_distribution" where items are erased at the input level.
            target: the class explained: "predicted", "gold", a number or a name.
            output: the output explained: "probability", "logit" or "log_odds"; by default each method's own.
            steps: points of integrated paths; by default as many as each text needs, 9 to 129.
            hide: how tokens are hidden at the input level: "attention_mask" (the default where it hides anything),
                "mask_token", "pad", "zero" or "delete".
            special_tokens: "include" them among the items, or "protect" them: then they are never erased.
            protect_deciding: never hide the token whose position decides, at the input level; some models and ways of
                hiding need this, and the notes of the run say so.
            batch_size: texts in a batch; fewer if memory runs out. It changes numbers by rounding only.
            seed: of random rankings, draws, and resamples.
            random_state: another name of ``seed``.
            n_resamples: resamples of the texts behind every interval.
            confidence_level: of the intervals.
            precision: stop when the estimates that the verdict prints have intervals of at most so much to either side:
                0.05 for ± 5 points. Texts are then read in a random order; with all of them read, the run ends anyway.
            max_texts: read at most so many texts, drawn at random. The same call with a larger number, a finer
                precision, or neither, goes on from what is there.
            output_dir: where results are written during the run, a folder or an address (``s3://...``); a temporary
                folder by default.
            store_texts: store up to 2,000 texts, drawn at random, with their scores and what each erasure did, for the
                reader of single texts; False for results that hold no text. They come from the erasure test.
            quiet: show no forecast and no progress. They are shown on standard error.
            part: ``(3, 16)`` evaluates the third of 16 parts of the data only, in an ``output_dir`` of its own; `merge`
                joins the parts.

        Returns:
            `Results`; print them.
        """
        run_options = RunOptions(
            batch_size=batch_size,
            seed=seed if random_state is None else random_state,
            n_resamples=n_resamples,
            confidence_level=confidence_level,
            output_dir=output_dir,
            sampling=Sampling(precision=precision, max_texts=max_texts),
            store_texts=store_texts,
            quiet=quiet,
            part=part,
        )
        ranking_options = RankingOptions(
            rankings=DEFAULT if rankings is None else rankings,
            explanations={} if explanations is None else explanations,
            level=level,
            target=target,
            output=output,
            steps=steps,
            hide=hide,
            special_tokens=special_tokens,
            protect_deciding=protect_deciding,
        )
        chosen_tests = tests if isinstance(tests, DefaultTests) else resolve_tests(tests)
        data_options = data_options_of(
            subset=subset,
            split=split,
            input_column=input_column,
            second_input_column=second_input_column,
            label_column=label_column,
            label_mapping=label_mapping,
            score_columns=ranking_options.score_columns,
            rationale_column=rationale_column,
            tests=chosen_tests,
        )

        source = DataSource(data, data_options)
        for explained in ranking_options.explanations.values():
            if isinstance(explained, Explained):
                explained.check(source.rows)
        run_options.sampling.check(source.rows, [test.name for test in chosen_tests], run_options.part)
        decision, labels = self._decision(source)
        source.read_labels(labels)
        config = RunConfig(
            self.cut,
            decision,
            self._method_options(run_options.seed, ranking_options.steps),
            target=_target(ranking_options.target, labels, source),
            output=ranking_options.output,
            special_tokens=ranking_options.special_tokens,
            protect_deciding=ranking_options.protect_deciding,
            stored=_stored(run_options, chosen_tests, source),
            sample=stored_texts.sample_of(source.rows, run_options.seed),
        )
        first = first_text(config, self.encoder, source)
        if isinstance(chosen_tests, DefaultTests):
            affine = self.cut.adapter.affine(first.capture) is not None
            chosen_tests = chosen_tests.at(levels_of(ranking_options.level, affine))
        trial, config, notes = dry_run(
            first,
            self.encoder,
            level=ranking_options.level,
            rankings=ranking_options.rankings,
            explanations=ranking_options.explanations,
            hide=ranking_options.hide,
            tests=chosen_tests,
        )
        manifest = run_manifest(
            config,
            chosen_tests,
            trial,
            fingerprints={
                "model": fingerprint_model(self.cut.model),
                "tokenizer": fingerprint_tokenizer(self.tokenizer),
            },
            columns=_columns_read(data_options, source),
            max_length=self.encoder.max_length,
            statistics=run_options.statistics,
            notes=[*source.notes, *notes],
        )
        runner = Runner(
            config,
            self.encoder,
            chosen_tests,
            run_options.batch_size,
            self.shard_size,
            piece_seconds=self.piece_seconds,
            profile=Profile(),
        )
        self.profile = runner.profile
        return self._run(runner, source, manifest, run_options)

    def _run(self, runner: Runner, source: DataSource, manifest: dict[str, Any], options: RunOptions) -> Results:
        """Run the loop in this process and the others; the first process opens and closes the files."""
        processes, temporary, output_dir = self.processes, None, options.output_dir
        index, count, sampling = processes.index, processes.count, options.sampling
        if output_dir is None:
            temporary = tempfile.TemporaryDirectory(prefix="attnfaith-")
            output_dir = processes.agreed(temporary.name)
        # without arguments, a run in the keyed order goes on in its order
        keyed = processes.agreed((sampling.wanted or Store.is_keyed(output_dir)) if index == 0 else None)
        with processes.first():
            if keyed:
                manifest["run"]["order"], runner.shard_size = KEYED, SHARD
                runner.batch_size = min(runner.batch_size, BATCH)
            manifest |= {"shard_size": runner.shard_size, "rows": source.rows}
            if options.part is not None:
                manifest["part"] = part_entry(options.part, source, runner.shard_size)
            check_new_manifest(manifest)
            store = Store.open(output_dir, manifest, begin=index == 0)
        opened, (number, parts) = store.manifest, options.part or (1, 1)
        rows = sampling.limit(source.rows) if keyed and source.rows is not None else rows_of(manifest)
        quiet = options.quiet or index > 0
        with ProgressLog("evaluating", quiet=quiet, clock=runner.profile.clock) as log:
            self.progress = progress = RunProgress(
                runner.cost,
                log,
                rows=None if rows is None else -(-rows // count),
                total=rows,
                sample=[] if quiet else runner.lengths(sample_of(source)),
                profile=runner.profile,
                at_most=sampling.precision is not None,
            )
            if keyed:
                sample = read_sample(runner, source, store, progress, options, processes)
            else:
                runner.run(source, store, progress, index=number - 1 + parts * index, of=parts * count)
        runner.warn_of_inexact_scores()
        processes.wait()
        with processes.first():
            if index == 0:
                store.fetch()
                if keyed and sample == opened.get(SAMPLE):
                    store.manifest = opened
                elif keyed:
                    store.read_only(sample)
                finish(store, runner.tests, seed=options.seed, quiet=options.quiet)
        return Results(store.load_again(check_manifest), temporary)

    def _method_options(self, seed: int, steps: int | None) -> MethodOptions:
        config = getattr(self.cut.model, "config", None)
        return MethodOptions(
            steps=steps,
            seed=seed,
            pad_id=getattr(config, "pad_token_id", None),
            mask_id=getattr(self.tokenizer, "mask_token_id", None),
            special_ids=special_ids_of(config, self.tokenizer),
        )

    def _decision(self, source: DataSource) -> tuple[Decision, ModelLabels]:
        """How the model decides, and between which classes."""
        config = getattr(self.cut.model, "config", None)
        stated = getattr(config, "num_labels", None)
        stated = stated if isinstance(stated, int) and stated > 0 else None
        count = self._count_logits(source) if stated is None else stated
        decision = decision_of(config, count, self.kind, self.tolerance)
        if decision.kind == "regression" and decision.tolerance is None:
            decision.flips(torch.zeros(1), torch.zeros(1))  # raises the error that says what is missing
        return decision, ModelLabels.of_config(config, decision.kind, count)

    def _count_logits(self, source: DataSource) -> int:
        """The number of logits of a model without ``num_labels``, from its output for the first text."""
        _, rows = next(iter(source.shards(1)))
        encoded, excluded = encode(self.encoder, rows)
        if excluded:
            raise InputError(f"The first text cannot be classified: {excluded[0]}.", code="no-texts")
        return self.cut.capture(**self.encoder.collate([encoded[0]])).logits.shape[-1]


def _target(target: str | int, labels: ModelLabels, source: DataSource) -> str | int:
    """The class explained: "predicted", "gold", or a class number, which may be given by name."""
    if target == "gold" and (not source.labelled or labels.kind not in ("multiclass", "sigmoid")):
        raise InputError(
            f"{parameter('target', 'gold')} needs a column of labels, and a model that decides between classes.",
            code="missing-labels",
        )
    if target in ("predicted", "gold"):
        return target
    number = labels.names.index(target) if isinstance(target, str) and target in labels.names else target
    if not isinstance(number, int) or not 0 <= number < max(labels.classes, 1):
        names = f" or one of {', '.join(labels.names)}" if labels.names else ""
        raise InputError(
            f"Expected {parameter('target')} to be 'predicted', 'gold', 0..{labels.classes - 1}{names}; got "
            f"{validation.short_repr(target)}."
        )
    return number


def _stored(options: RunOptions, tests: Sequence[Test], source: DataSource) -> Collection[int]:
    """The row numbers of the texts that are stored."""
    erased = any(isinstance(test, Erasure) for test in tests)
    return stored_texts.sample_of(source.rows, options.seed) if options.store_texts and erased else ()


def _columns_read(options: DataOptions, source: DataSource) -> dict[str, Any]:
    """The columns of the data by what they are read as, for the manifest."""
    return {
        "text": options.input_column,
        "second text": options.second_input_column,
        "label": options.label_column if source.labelled else None,
        "rationale": options.rationale_column,
        "scores": list(options.score_columns),
    }


def _check_device(device: Any) -> None:
    try:
        torch.empty(0, device=device)
    except Exception as error:  # the exception's type differs between backends
        reason = str(error).partition("\n")[0]
        raise InputError(f"The device {validation.short_repr(device)} cannot be used: {reason}") from error
