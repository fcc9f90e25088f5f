"""What cannot become a report is refused before any work, and what is there is left alone."""

import os

import pytest

import attnfaith as af
from attnfaith.report.output_file import check_report_path


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("folder.html", af.InputError, "is a folder"),
        ("report.pdf", af.InputError, "ends in .html"),
        ("report", af.InputError, "ends in .html"),
        ("no/such/report.html", af.InputError, "There is no folder"),
        ("file/report.html", af.InputError, "There is no folder"),
        ("s3://bucket/report.html", af.InputError, "local file"),
        ("nul\0.html", af.InputError, "NUL"),
        (3, af.InputError, "path"),
    ],
)
def test_refused(name, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(error, match=message):
        check_report_path(name)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder.html"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(af.StorageError, match="cannot be written"):
        check_report_path(tmp_path / "report.html")


def test_a_disk_that_fails(tmp_path, monkeypatch):
    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("attnfaith.report.output_file.probe", full)
    with pytest.raises(af.StorageError, match="No space left"):
        check_report_path(tmp_path / "report.html")
