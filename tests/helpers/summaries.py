"""The summary of a test from its tables, without a run."""

import numpy as np
import pandas as pd

from attnfaith.estimates.quantities import quantities_only
from attnfaith.evaluation.tests.base import tests

STATISTICS = ("n_resamples", "confidence_level", "seed")


def summarised(name: str, rows: pd.DataFrame, texts: pd.DataFrame, *, by=None, **settings) -> pd.DataFrame:
    """The summary of a test; settings that are not those of intervals are its options."""
    statistics = {setting: settings.pop(setting) for setting in STATISTICS if setting in settings}
    frames = {name: rows, "texts": texts}
    return tests[name](**settings).summarise(frames.__getitem__, by=by, **statistics)


def compared(name: str, rows: pd.DataFrame, **options) -> dict[str, dict]:
    """What two runs of a test are compared by: by level, the column of each name and key, and the ids of the texts."""
    result = {}
    for level in tests[name](**options).quantities({name: rows}.__getitem__):
        parts = quantities_only(level.quantities_for(np.arange(len(level.text_ids))))
        columns = {
            name: values
            for part in (item.compared_only() for item in parts)
            for name, values in zip(part.names(), part.values.T, strict=True)
        }
        result[level.level] = {"text_ids": level.text_ids, "columns": columns}
    return result


def summarise_erasure(erasure: pd.DataFrame, texts: pd.DataFrame, **settings) -> pd.DataFrame:
    """Of the erasure test."""
    return summarised("erasure", erasure, texts, **settings)


def summarise_single_weight(single_weight: pd.DataFrame, texts: pd.DataFrame, **settings) -> pd.DataFrame:
    """Of the single-weight test."""
    return summarised("single_weight", single_weight, texts, **settings)
