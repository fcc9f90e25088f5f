"""The folder of a diagnosis: continued if it is the same, and refused if it is not, or is damaged."""

import pandas as pd
import pytest

from attnfaith.diagnostics.folder import NAME, DiagnosisFolder
from attnfaith.errors import InputError, StorageError

RUN = {"model": "a", "seed": 0, "training": {"epochs": 3}}


def started(path, run=RUN):
    folder = DiagnosisFolder(path)
    folder.start(run, {"classes": 2}, ("a note",))
    return folder


def test_the_same_diagnosis_is_continued_with_its_tables_and_models(tmp_path):
    table = pd.DataFrame({"text": ["a", "b"], "value": [0.5, None]})
    first = started(tmp_path / "d")
    first.write_table("seeds", table)
    first.write_model("learned-0", lambda path: (path / "weights").write_text("w"), {"seconds": 1.0})
    again = started(tmp_path / "d")
    assert again.read_table("seeds").to_pandas().equals(table)
    assert again.has_model("learned-0")
    assert again.record("learned-0") == {"seconds": 1.0}
    again.finish({"tests": ["seeds"]})
    read = DiagnosisFolder(tmp_path / "d")
    read.read()
    assert read.manifest["finished"] == {"tests": ["seeds"]}


def test_a_model_that_was_being_written_is_not_there(tmp_path):
    folder = started(tmp_path / "d")

    def killed(path):
        (path / "weights").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        folder.write_model("learned-0", killed, {})
    assert not folder.has_model("learned-0")
    folder.write_model("learned-0", lambda path: (path / "weights").write_text("whole"), {})
    assert (folder.model("learned-0") / "weights").read_text() == "whole"


def test_another_diagnosis_is_refused_and_what_differs_is_named(tmp_path):
    started(tmp_path / "d")
    with pytest.raises(InputError, match="training epochs is 4, and was 3") as refused:
        started(tmp_path / "d", {**RUN, "training": {"epochs": 4}})
    assert refused.value.code == "other-run"


def test_tables_of_another_diagnosis_are_refused(tmp_path):
    one, other = started(tmp_path / "one"), started(tmp_path / "other", {**RUN, "seed": 1})
    for folder in (one, other):
        folder.write_table("seeds", pd.DataFrame({"value": [1.0]}))
    other._table("seeds", "tables").path.write_bytes(one._table("seeds", "tables").path.read_bytes())
    with pytest.raises(StorageError, match="another run"):
        other.read_table("seeds")


def test_folders_that_hold_something_else_are_refused(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "thesis.tex").write_text("")
    with pytest.raises(InputError, match=r"thesis\.tex") as refused:
        started(tmp_path / "d")
    assert refused.value.code == "not-a-run"
    with pytest.raises(InputError, match=r"is a file"):
        started(tmp_path / "d" / "thesis.tex")


@pytest.mark.parametrize("change", [lambda text: text.replace('"a note"', '"another"'), lambda text: text[:-20]])
def test_a_damaged_manifest_is_refused(tmp_path, change):
    started(tmp_path / "d")
    file = tmp_path / "d" / NAME
    file.write_text(change(file.read_text()))
    with pytest.raises(StorageError) as refused:
        DiagnosisFolder(tmp_path / "d").read()
    assert refused.value.code == "damaged-run"
