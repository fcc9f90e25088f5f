"""The promises of SECURITY.md: no pickle, no code from models, runs or data, no connections, nothing started."""

import ast
import json
import pickle
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import attnfaith as af
from attnfaith.models.word_vectors import load_vectors
from tests.faults import children
from tests.faults.children import forked
from tests.helpers import commands

SOURCES = sorted(Path(af.__file__).parent.rglob("*.py"))
FORBIDDEN = {
    *"pickle cPickle dill cloudpickle joblib shelve marshal code codeop runpy subprocess pty ctypes".split(),
    *"requests httpx aiohttp urllib http ftplib smtplib telnetlib webbrowser xmlrpc".split(),
}
"""Modules that run what they read, start programs, or talk to others."""
CALLS = {"eval", "exec", "compile", "__import__", "load_module", "system", "popen", "connect", "getaddrinfo"}
QUICK = ("--resamples", "20", "--level", "attention", "--rankings", "attention", "--quiet")


class Trap:
    """Unpickled, it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (_spring, (str(self.path),))


def _spring(path):
    Path(path).touch()
    return {}


def _calls(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            yield node, function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(SOURCES[0].parent)))
def test_the_source_uses_nothing_that_runs_code_or_talks(source):
    tree = ast.parse(source.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [item.name for item in node.names]
            assert not {name.split(".")[0] for name in names} & FORBIDDEN
        if isinstance(node, ast.keyword) and node.arg in ("trust_remote_code", "weights_only", "allow_pickle"):
            assert isinstance(node.value, ast.Constant)
            assert node.value.value is (node.arg == "weights_only")
    for call, name in _calls(tree):
        if name == "from_pretrained" and ast.unparse(call.func).startswith("Auto"):  # else Transformers asks the user
            assert any(keyword.arg == "trust_remote_code" for keyword in call.keywords)
        if isinstance(call.func, ast.Name) and name in ("exec", "eval"):
            assert isinstance(call.args[0], ast.Constant), "code that is not in the source"
            assert not call.args[0].value
        elif name == "compile":  # regular expressions
            assert isinstance(call.func, ast.Attribute)
            assert getattr(call.func.value, "id", "") == "re"
        else:
            assert name not in CALLS or name == "eval"  # Module.eval()
        if name == "load" and isinstance(call.func, ast.Attribute):
            owner = getattr(call.func.value, "id", "")
            assert owner != "torch"
            assert owner != "np" or any(keyword.arg == "allow_pickle" for keyword in call.keywords)


def test_the_scan_of_the_source_can_fail(tmp_path):
    lines = ("import pickle", "exec(text)", "torch.load(path)", "f(trust_remote_code=True)", "np.load(path)")
    for line in (*lines, "AutoTokenizer.from_pretrained(path)"):
        path = tmp_path / "source.py"
        path.write_text(line + "\n")
        with pytest.raises(AssertionError):
            test_the_source_uses_nothing_that_runs_code_or_talks(path)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return commands.save_bert(tmp_path_factory.mktemp("models") / "bert")


@pytest.fixture
def data(tmp_path):
    return commands.reviews(tmp_path / "reviews.csv", 12)


def _refused_or_done(*arguments):
    """A command ended with a result or a message; never by running on or with a traceback."""
    ended = forked(children.evaluate, *arguments)
    ended.assert_plain()
    assert ended.code in (0, 1, 2, 3)
    return ended


def test_weights_that_are_a_pickle_with_code_are_not_run(model, data, tmp_path):
    folder, sprung = tmp_path / "model", tmp_path / "sprung"
    shutil.copytree(model, folder)
    (folder / "model.safetensors").unlink()
    torch.save({"classifier.bias": Trap(sprung)}, folder / "pytorch_model.bin")
    with pytest.raises(pickle.UnpicklingError):  # the trap works: torch alone refuses it only for its weights_only
        torch.load(folder / "pytorch_model.bin", weights_only=True)
    torch.load(folder / "pytorch_model.bin", weights_only=False)
    assert sprung.exists()
    sprung.unlink()
    ended = forked(children.evaluate, "explain", folder, "a fine film")
    assert not sprung.exists()
    assert ended.code in (1, 2)
    with pytest.raises(Exception, match=r"."):
        af.Evaluator(folder)
    assert not sprung.exists()


@pytest.mark.parametrize("known", [True, False], ids=["a known model type", "an unknown one"])
def test_code_beside_a_model_is_not_run(known, model, tmp_path):
    folder, sprung = tmp_path / "model", tmp_path / "sprung"
    shutil.copytree(model, folder)
    trap = f"from pathlib import Path\nPath({str(sprung)!r}).touch()\nclass Own:\n    pass\n"
    for name in ("modeling_own.py", "configuration_own.py", "tokenization_own.py", "__init__.py"):
        (folder / name).write_text(trap)
    for name, auto in (
        (
            "config.json",
            {"AutoConfig": "configuration_own.Own", "AutoModelForSequenceClassification": "modeling_own.Own"},
        ),
        ("tokenizer_config.json", {"AutoTokenizer": ["tokenization_own.Own", "tokenization_own.Own"]}),
    ):
        content = json.loads((folder / name).read_text())
        content["auto_map"] = auto
        if not known:
            content |= {"model_type": "own"} if name == "config.json" else {"tokenizer_class": "Own"}
        (folder / name).write_text(json.dumps(content))
    ended = _refused_or_done("explain", folder, "a fine film")
    assert (ended.code == 0) == known
    assert not sprung.exists()


def _extension_table(rows, sprung):
    """A parquet table whose schema asks for a Python class that is pickled in it, as old versions of arrow read it."""
    field = pa.field(
        "text",
        pa.string(),
        metadata={
            b"ARROW:extension:name": b"arrow.py_extension_type",
            b"ARROW:extension:metadata": pickle.dumps(Trap(sprung)),
        },
    )
    return pa.table([pa.array(rows)], schema=pa.schema([field]))


def test_data_with_code_are_not_run(model, tmp_path):
    sprung = tmp_path / "sprung"
    pq.write_table(_extension_table(commands.texts(12), sprung), tmp_path / "data.parquet")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "folder.py").write_text(f"open({str(sprung)!r}, 'w')\n")
    (tmp_path / "data.pkl").write_bytes(pickle.dumps(Trap(sprung)))
    (tmp_path / "data.csv").write_bytes(pickle.dumps(Trap(sprung)))
    commands.write_csv(
        tmp_path / "cells.csv", [("__import__('os').system('touch sprung')", 0), ("=cmd|' /C calc'!A0", 1)] * 6
    )
    for name in ("data.parquet", "folder", "data.pkl", "data.csv", "cells.csv"):
        ended = _refused_or_done("evaluate", model, tmp_path / name, "--output", tmp_path / f"run-{name}", *QUICK)
        assert not sprung.exists()
        if name != "data.parquet":  # whether its type can be read, depends on the version of datasets
            assert (ended.code == 0) == (name == "cells.csv"), (name, ended.stderr)


def test_stored_runs_with_code_are_not_run(model, data, tmp_path):
    sprung, run = tmp_path / "sprung", tmp_path / "run"
    assert forked(children.evaluate, "evaluate", model, data, "--output", run, *QUICK).code == 0
    for path in run.rglob("*.parquet"):
        pq.write_table(_extension_table(["x"], sprung), path)
    (run / "texts.py").write_text(f"open({str(sprung)!r}, 'w')\n")
    (run / "manifest.pkl").write_bytes(pickle.dumps(Trap(sprung)))
    assert _refused_or_done("compare", run, run).code in (2, 3)
    assert not sprung.exists()
    (run / "manifest.json").write_bytes(pickle.dumps(Trap(sprung)))
    assert _refused_or_done("compare", run, run).code in (2, 3)
    assert not sprung.exists()


def test_word_vectors_that_are_a_pickle_are_not_run(tmp_path):
    sprung = tmp_path / "sprung"
    (tmp_path / "words.txt").write_text("x\n")
    np.save(tmp_path / "vectors.npy", np.array([Trap(sprung)], dtype=object), allow_pickle=True)
    (tmp_path / "vectors.txt").write_bytes(pickle.dumps(Trap(sprung)))
    for name in ("vectors.npy", "vectors.txt"):
        with pytest.raises(af.InputError, match="cannot be read"):
            load_vectors(tmp_path / name, tmp_path / "words.txt")
    assert not sprung.exists()


_WATCHED = (
    "socket.connect",
    "socket.getaddrinfo",
    "socket.sendto",
    "pickle.find_class",
    "subprocess.Popen",
    "os.system",
)
_WATCHED += ("os.exec", "os.posix_spawn", "os.spawn", "webbrowser.open", "ctypes.dlopen")


def _watched(folder, arguments):
    """Run a command; what Python's audit events say of connections, unpickling and programs goes to a file."""
    seen = []
    sys.addaudithook(lambda event, result: seen.append(f"{event} {result!r}"[:200]) if event in _WATCHED else None)
    try:
        children.evaluate(*arguments)
    finally:
        Path(folder, "events").write_text("\n".join(seen))


def _talk(folder):
    import socket

    with socket.socket() as item:
        item.connect_ex(("127.0.0.1", 9))


def test_nothing_is_sent_unpickled_or_started(model, data, tmp_path):
    run = tmp_path / "run"
    for arguments in (
        ("evaluate", model, data, "--output", run, "--resamples", "20", "--quiet"),
        ("explain", model, "a fine film", "--html", tmp_path / "page.html"),
        ("compare", run, run),
    ):
        ended = forked(_watched, str(tmp_path), arguments)
        assert ended.code == 0, ended.stderr
        events = (tmp_path / "events").read_text().splitlines()
        assert [event for event in events if not event.startswith("ctypes.dlopen")] == []


def test_the_watch_can_fail(tmp_path):
    seen = []
    sys.addaudithook(lambda event, result: seen.append(event) if event in _WATCHED else None)
    _talk(tmp_path)
    pickle.loads(pickle.dumps(Trap(tmp_path / "sprung")))
    assert {"socket.connect", "pickle.find_class"} <= set(seen)
