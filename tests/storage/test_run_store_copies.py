"""A copy of a run: the same bytes, also if it was cut short, and never onto something else."""

import shutil

import pytest

from attnfaith.errors import InputError
from attnfaith.storage.run_store import Store
from tests.helpers.stored_runs import MANIFEST, bytes_of, finished, manifest_with, tables_of


def test_a_copy(tmp_path):
    store = finished(tmp_path / "run")
    copy = store.copy_to(tmp_path / "copy")
    assert copy.complete
    assert bytes_of(tmp_path / "copy") == bytes_of(tmp_path / "run")
    assert store.copy_to(tmp_path / "run" / ".." / "run") is store
    assert store.copy_to(str(tmp_path / "copy")).complete  # once more
    shutil.rmtree(tmp_path / "run")
    assert len(copy.table("texts")) == 22


def test_an_interrupted_copy_resumes(tmp_path):
    store = finished(tmp_path / "run")
    part = Store.open(tmp_path / "copy", MANIFEST)
    part.write(1, tables_of(1), "rows 1")
    store.copy_to(tmp_path / "copy")
    assert bytes_of(tmp_path / "copy") == bytes_of(tmp_path / "run")


def test_a_copy_onto_something_else(tmp_path):
    store = finished(tmp_path / "run")
    finished(tmp_path / "other", manifest_with(("run", "seed"), 1))
    with pytest.raises(InputError, match="seed is 1 there and 0 here"):
        store.copy_to(tmp_path / "other")
    changed = Store.open(tmp_path / "changed", MANIFEST)
    changed.write(0, tables_of(0), "other rows")
    with pytest.raises(InputError, match="rows 0 to 3"):
        store.copy_to(tmp_path / "changed")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match=r"thesis\.tex"):
        store.copy_to(tmp_path / "foreign")
