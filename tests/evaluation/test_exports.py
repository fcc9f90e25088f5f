"""Results as data sets of ``datasets``, and in the file of ``evaluate.save``."""

import json
import math
import os

import datasets
import evaluate
import pandas as pd
import pytest

from attnfaith.errors import InputError
from tests.helpers.small_runs import computed, evaluator_of


@pytest.fixture(scope="module")
def results():
    evaluator, data = evaluator_of("multiclass")
    evaluator.shard_size = 8
    return computed(evaluator, data, "erasure", "agreement", "information")


def same(stored, value):
    """What pandas calls missing is None or NaN."""
    if isinstance(stored, list):
        return stored == list(value)
    missing = stored is None or stored != stored
    return bool(pd.isna(value)) if missing else stored == value


def test_every_table_is_a_dataset(results):
    for name, table in results.tables.items():
        dataset = results.to_dataset(name)
        assert dataset.column_names == list(table.columns)
        for row, record in zip(dataset, table.to_dict("records"), strict=True):
            for column, value in record.items():
                assert same(row[column], value), column
    assert results.to_dataset().num_rows == 30
    with pytest.raises(InputError, match="no table 'erasures'"):
        results.to_dataset("erasures")


def test_load_dataset_reads_the_files_of_a_run(results, tmp_path):
    for name in results.tables:
        files = (
            results.path / name / "*.parquet" if (results.path / name).is_dir() else results.path / f"{name}.parquet"
        )
        read = datasets.load_dataset("parquet", data_files=str(files), split="train", cache_dir=tmp_path)
        assert read.features == results.to_dataset(name).features
        assert read.num_rows == len(results.table(name))


@pytest.fixture
def quiet_git(monkeypatch, tmp_path):
    """`evaluate.save` asks git for the commit of the working folder."""
    monkeypatch.chdir(tmp_path)


def test_the_file_is_that_of_evaluate(results, tmp_path, quiet_git, capfd):
    path = results.to_evaluate(tmp_path / "figures.json")
    stored = json.loads(path.read_text(), parse_constant=pytest.fail)  # no NaN: other readers refuse it
    theirs = json.loads(evaluate.save(tmp_path / "theirs.json", accuracy=1.0).read_text())
    assert set(stored) >= set(theirs) - {"accuracy"}
    assert (stored["verdict"], stored["texts"]) == (results.verdict.label, 30)
    summary = results.summary()
    for row in summary.to_dict("records"):
        parts = [row[name] for name in ("test", "erase_level", "ranking_level", "ranking", "other", "figure")]
        name = "/".join(part for part in parts if isinstance(part, str) and part)
        assert stored[name] == pytest.approx(row["value"]) if math.isfinite(row["value"]) else stored[name] is None
        for end in ("low", "high"):
            assert stored.get(f"{name}_{end}", math.nan) == pytest.approx(row[end], nan_ok=True)
    folder = results.to_evaluate(tmp_path / "many")
    assert os.listdir(tmp_path / "many") == [folder.name]
    assert folder.name.startswith("result-")
