"""One text, through everything, before the run: what does not work on this model is found here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from accelerate.utils.memory import should_reduce_batch_size

from attnfaith.data.source import DataSource
from attnfaith.errors import InputError, NumericalError, UnsupportedModelError
from attnfaith.evaluation.batch import Batch, RunConfig
from attnfaith.evaluation.rankings import Explain, Ranking, check_available, is_named, rankings_for
from attnfaith.evaluation.runner import encode, too_long
from attnfaith.evaluation.tests.base import Test
from attnfaith.evaluation.token_hiding import hiding_for
from attnfaith.text.encoder import TextEncoder

TRIED = 64
"""At most so many of the first texts are tried, until one can be classified."""


def first_text(setup: RunConfig, texts: TextEncoder, source: DataSource) -> Batch:
    """The longest of the first texts that the model reads without trouble."""
    rows = next(iter(source.shards(TRIED)))[1]
    encoded, aside = encode(texts, rows, gold=setup.target == "gold")
    for place in sorted(encoded, key=lambda place: -len(encoded[place].ids)):
        try:
            return Batch(setup, [rows[place]], [encoded[place]], texts.collate([encoded[place]]))
        except NumericalError as error:
            aside[place] = str(error)
        except RuntimeError as error:
            if should_reduce_batch_size(error):
                raise too_long(rows[place], encoded[place]) from error
            raise
    reasons = "; ".join(dict.fromkeys(aside.values()))
    raise InputError(f"None of the first {len(rows)} texts can be classified: {reasons}.")


def dry_run(
    batch: Batch,
    texts: TextEncoder,
    *,
    level: str | None,
    rankings: str | Sequence[str],
    explanations: Mapping[str, Explain],
    hide: str | None,
    tests: Sequence[Test],
) -> tuple[Batch, RunConfig, list[str]]:
    """Settle where to erase, how tokens are hidden and which rankings there are; and what a reader should know.

    A ranking that the model does not support is left out of "all", and refused where it was named.
    """
    setup, notes = batch.setup, []
    items = batch.capture.items
    affine = setup.cut.adapter.affine(batch.capture) is not None
    by_token = items is not None and items.kind == "tokens"
    levels = levels_of(level, affine)
    found: dict[str, tuple[Ranking, ...]] = {}
    for erase_level in levels:
        listed = rankings_for(erase_level, rankings, explanations, by_token=by_token, affine=affine)
        if rankings == "all" and not explanations and not any(test.ranked for test in tests):
            listed = []
        works = []
        for ranking in listed:
            try:
                batch.scores(ranking, erase_level)
                works.append(ranking)
            except UnsupportedModelError as error:
                if is_named(ranking, rankings):
                    raise
                notes.append(f"The ranking {ranking} is left out: {error}")
        found[erase_level] = tuple(works)
    check_available(levels, rankings, [one for listed in found.values() for one in listed])
    setup = replace(setup, rankings=found)
    if "input" in levels:
        hiding = hiding_for(
            setup.cut,
            batch.inputs,
            way=hide,
            mask_id=setup.settings.mask_id,
            left=texts.tokenizer.padding_side == "left",
            longest=texts.max_length,
            protect=setup.protect_deciding,
        )
        notes += hiding.notes
        setup = replace(setup, hiding=hiding, protect_deciding=setup.protect_deciding or hiding.protects)
    elif hide is not None:
        raise InputError("hide= says how tokens are hidden at the input level. Use level='input' or 'both'.")
    trial = Batch(setup, batch.rows, batch.encoded, batch.inputs)
    for test in tests:
        test.run(trial)
    return trial, setup, list(dict.fromkeys(notes))


def levels_of(level: str | None, affine: bool) -> tuple[str, ...]:
    """Where items are erased: at the final attention alone for models that are nothing else, else at both levels."""
    if level not in (None, "attention", "input", "both"):
        raise InputError(f"Expected level to be 'attention', 'input' or 'both', got {level!r}.")
    if level is None:
        level = "attention" if affine else "both"
    return ("attention", "input") if level == "both" else (level,)
