"""Dry-run one text through every ranking and test, so that unsupported combinations fail before the run starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from accelerate.utils.memory import should_reduce_batch_size

from attnfaith.data.source import DataSource
from attnfaith.errors import InputError, NumericalError, UnsupportedModelError
from attnfaith.evaluation.batch import Batch, RunConfig
from attnfaith.evaluation.rankings import (
    Explain,
    Ranking,
    check_available,
    enumerated,
    is_named,
    left_out,
    rankings_for,
)
from attnfaith.evaluation.runner import encode, too_long
from attnfaith.evaluation.tests.base import Test
from attnfaith.evaluation.token_hiding import hiding_for
from attnfaith.parameter_names import parameter
from attnfaith.text.encoder import TextEncoder

MAX_TRIED = 64
"""Texts among which the one for the dry run is chosen."""
LENGTH = 16
"""Tokens that are enough for the dry run; a long text would cost it minutes before the run begins."""


def first_text(config: RunConfig, encoder: TextEncoder, source: DataSource) -> Batch:
    """One of the first texts that the model can process, as a batch: the shortest that is long enough."""
    rows = next(iter(source.shards(MAX_TRIED)))[1]
    encoded, excluded = encode(encoder, rows, gold=config.target == "gold")
    lengths = {index: len(text.ids) for index, text in encoded.items()}
    for index in sorted(lengths, key=lambda index: (lengths[index] < LENGTH, abs(lengths[index] - LENGTH))):
        try:
            return Batch(config, [rows[index]], [encoded[index]], encoder.collate([encoded[index]]))
        except NumericalError as error:
            excluded[index] = error.message
        except RuntimeError as error:
            if should_reduce_batch_size(error):
                raise too_long(rows[index], encoded[index]) from error
            raise
    reasons = "; ".join(dict.fromkeys(excluded.values()))
    raise InputError(f"None of the first {len(rows)} texts can be classified: {reasons}.", code="no-texts")


def dry_run(
    batch: Batch,
    encoder: TextEncoder,
    *,
    level: str | None,
    rankings: str | Sequence[str],
    explanations: Mapping[str, Explain],
    hide: str | None,
    tests: Sequence[Test],
) -> tuple[Batch, RunConfig, list[str]]:
    """Settle the levels, the way of hiding tokens and the rankings of a run, and try every test on one text.

    A ranking that the model does not support is left out of "default" and "all", and refused if it was named.

    Args:
        batch: the text.
        encoder: encodes texts for the model.
        level: "attention", "input", "both", or None for the default of the model.
        rankings: "default", "all", or names.
        explanations: rankings of the user's, by name.
        hide: the way of hiding tokens; None for the default of the model.
        tests: of the run.

    Returns:
        The batch after all tests, the settled configuration, and notes for the reader of the results.
    """
    config, notes = batch.config, []
    items = batch.capture.items
    affine = config.cut.adapter.affine(batch.capture) is not None
    by_token = items is not None and items.kind == "tokens"
    levels = levels_of(level, affine)
    rankings_by_level: dict[str, tuple[Ranking, ...]] = {}
    left_out_by_level: dict[str, tuple[Ranking, ...]] = {}
    for erase_level in levels:
        candidates = rankings_for(erase_level, rankings, explanations, by_token=by_token, affine=affine)
        dear = left_out(erase_level, rankings, candidates, by_token=by_token, affine=affine)
        if isinstance(rankings, str) and not explanations and not any(test.ranked for test in tests):
            candidates, dear = [], []
        supported = []
        for ranking in candidates:
            try:
                batch.scores(ranking, erase_level)
                supported.append(ranking)
            except UnsupportedModelError as error:
                if is_named(ranking, rankings):
                    raise
                notes.append(f"The ranking {ranking} is left out: {error.message}")
        rankings_by_level[erase_level] = tuple(supported)
        left_out_by_level[erase_level] = tuple(dear)
        if dear:
            notes.append(
                f"Left out at the {erase_level} level, where each costs many passes: "
                f"{enumerated([str(ranking) for ranking in dear])}. Add them with {parameter('rankings', 'all')}."
            )
    check_available(levels, rankings, [ranking for supported in rankings_by_level.values() for ranking in supported])
    config = replace(config, rankings=rankings_by_level, left_out=left_out_by_level)
    if "input" in levels:
        hiding = hiding_for(
            config.cut,
            batch.inputs,
            hide=hide,
            mask_id=config.settings.mask_id,
            left=encoder.tokenizer.padding_side == "left",
            longest=encoder.max_length,
            protect=config.protect_deciding,
        )
        notes += hiding.notes
        config = replace(config, hiding=hiding, protect_deciding=config.protect_deciding or hiding.protects)
    elif hide is not None:
        raise InputError(
            f"{parameter('hide', hide)} is a way of hiding tokens at the input level, and nothing is erased there. Use "
            f"{parameter('level', 'input')} or {parameter('level', 'both')}, or leave {parameter('hide')} out."
        )
    trial = Batch(config, batch.rows, batch.encoded, batch.inputs)
    for test in tests:
        test.run(trial)
    return trial, config, list(dict.fromkeys(notes))


def levels_of(level: str | None, affine: bool) -> tuple[str, ...]:
    """The levels at which items are erased: by default the final attention alone for a model with an affine tail."""
    if level not in (None, "attention", "input", "both"):
        raise InputError(f"Expected {parameter('level')} to be 'attention', 'input' or 'both', got {level!r}.")
    if level is None:
        level = "attention" if affine else "both"
    return ("attention", "input") if level == "both" else (level,)
