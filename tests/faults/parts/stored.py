"""Stored runs that were damaged or forged: they are refused, or say what they said before."""

from __future__ import annotations

import copy
import functools
import importlib.util
import json
import os
import random
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attnfaith as af
from tests.faults import material
from tests.faults.tally import Part, Tally, problem_of, times
from tests.helpers.commands import files
from tests.helpers.small_runs import QUICK

ODD: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    3,
    10**12,
    -(10**12),
    1e308,
    0.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "0",
    "\x1b[31m",
    "../..",
    "/etc/passwd",
    "é" * 300,
    [],
    {},
    [[]],
    [None],
    {"": None},
    {"a": {"b": 1}},
    ["erasure"],
    "attention/nothing",
]
"""Values in the place of any other in a manifest."""


def run(scale: float, seed: int) -> Tally:
    """Mutations of every file of a run, of several files at once, and of every entry of the manifest."""
    tally, draw = Tally(), random.Random(seed)
    pool = [(what, mutate) for what, mutate in _mutations(draw, times(1_500, scale, 40))]
    for what, mutate in pool:
        tally.record(what, _tried(mutate, draw))
    for what, mutate in _others(draw, times(300, scale, 4)):
        tally.record(what, _tried(mutate, draw))
    return tally


@functools.cache
def whole() -> tuple[Path, str, dict[str, str]]:
    """A run of three shards with several tests, what it says, and its tables."""
    folder = material.fresh("stored") / "run"
    _evaluator().compute(**_evaluated(folder))
    return folder, *_answers(folder)


@functools.cache
def _evaluator() -> af.Evaluator:
    return af.Evaluator(*material.loaded(material.flan_folder()))


def _evaluated(folder: Path) -> dict[str, Any]:
    return {
        "data": material.reviews(600),
        "tests": [QUICK[name] for name in ("erasure", "single_weight", "agreement")],
        "rankings": ["attention", "gradient"],
        "level": "attention",
        "n_resamples": 20,
        "quiet": True,
        "output_dir": folder,
    }


def _answers(folder: Path) -> tuple[str, dict[str, str]]:
    """Everything that a user can read out of a run: the verdict, the counts and notes, the figures, the tables."""
    results = af.load_results(folder)
    answers = {"verdict": str(results), "counts": json.dumps(results.manifest["counts"], sort_keys=True)}
    answers["summary"] = results.summary().to_json()
    answers["facts"] = json.dumps([results.manifest["facts"], results.manifest["notes"], results.manifest["run"]])
    answers |= {f"table {name}": results.table(name).to_json() for name in results.tables}
    return answers["verdict"], answers


def _tried(mutate: Callable[[Path], None], draw: random.Random) -> str:
    """Why a mutated run is handled wrongly; "" if it is refused, or says exactly what it said before."""
    original, _, expected = whole()
    folder = material.fresh("mutant") / "run"
    shutil.copytree(original, folder, symlinks=True)
    about = mutate(folder) or ""
    try:
        with _bounded():
            problem = _judged(folder, expected, about)
            # Going on with it is another reader: it heals what it can, or refuses.
            if not problem and not about.startswith("forge") and draw.random() < 0.15:
                problem = _resumed(folder, about)
        return problem
    finally:
        shutil.rmtree(folder.parent, ignore_errors=True)


def _judged(folder: Path, expected: dict[str, str], about: str) -> str:
    try:
        answers = _answers(folder)[1]
    except af.AttnFaithError as error:
        return "" if len(str(error)) < 6_000 else f"a message of {len(str(error)):,} characters {about}"
    except BaseException as error:
        return problem_of(error, about)
    if about.startswith("forge"):  # with a new checksum it is a run of the forger's own
        return ""
    changed = [name for name in expected if answers.get(name) != expected[name]]
    return (
        f"says something else in silence: {', '.join(changed)} ({about})"
        if changed or set(answers) - set(expected)
        else ""
    )


def _resumed(folder: Path, about: str) -> str:
    try:
        _evaluator().compute(**_evaluated(folder))
    except af.AttnFaithError:
        return ""
    except BaseException as error:
        return f"going on: {problem_of(error, about)}"
    got, calm = files(folder), files(whole()[0])
    wrong = [name for name in calm if got.get(name) != calm[name]]
    return f"going on ends with other files: {wrong[:3]} ({about})" if wrong else ""


class _bounded:  # noqa: N801 (a context manager)
    """A limit on memory, so that a number in a file cannot take all there is."""

    def __enter__(self) -> None:
        self.before = resource.getrlimit(resource.RLIMIT_AS)
        now = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (now + 4 * 2**30, self.before[1]))

    def __exit__(self, *error: Any) -> None:
        resource.setrlimit(resource.RLIMIT_AS, self.before)


def _mutations(draw: random.Random, count: int) -> Iterator[tuple[str, Callable[[Path], Any]]]:
    names = sorted(files(whole()[0]))
    tables = [name for name in names if name.endswith(".parquet")]
    entries = list(_entries(json.loads((whole()[0] / "manifest.json").read_text())))
    for number in range(count):
        name = names[number % len(names)]
        kinds: list[tuple[str, Callable[[Path], Any]]] = [
            ("a bit of a file flipped", functools.partial(_flip, name=name, draw=draw)),
            ("bytes of a file overwritten", functools.partial(_overwrite, name=name, draw=draw)),
            ("a file cut off", functools.partial(_truncate, name=name, draw=draw)),
            ("a file with bytes added", functools.partial(_extend, name=name, draw=draw)),
            ("a file removed", functools.partial(_remove, name=name)),
            ("a file in the place of another", functools.partial(_copy, pair=draw.sample(tables, 2))),
            ("two files swapped", functools.partial(_swap, pair=draw.sample(tables, 2))),
            ("a folder or link in the place of a file", functools.partial(_replace, name=name, draw=draw)),
            ("an entry of the manifest changed", functools.partial(_entry, entry=draw.choice(entries), draw=draw)),
            ("an entry of the manifest removed", functools.partial(_entry, entry=draw.choice(entries), draw=None)),
            ("a number in the manifest changed", functools.partial(_number, entries=entries, draw=draw)),
            ("a cell of a table changed", functools.partial(_cell, name=draw.choice(tables), draw=draw)),
        ]
        yield draw.choice(kinds)


def _flip(folder: Path, *, name: str, draw: random.Random) -> str:
    content = bytearray((folder / name).read_bytes())
    index = draw.randrange(len(content))
    content[index] ^= 1 << draw.randrange(8)
    (folder / name).write_bytes(content)
    return f"bit in byte {index} of {name}"


def _overwrite(folder: Path, *, name: str, draw: random.Random) -> str:
    content = bytearray((folder / name).read_bytes())
    index = draw.randrange(len(content))
    content[index : index + 16] = draw.randbytes(len(content[index : index + 16]))
    (folder / name).write_bytes(content)
    return f"bytes {index} to {index + 15} of {name}"


def _truncate(folder: Path, *, name: str, draw: random.Random) -> str:
    content = (folder / name).read_bytes()
    size = draw.choice([0, 1, len(content) - 1, draw.randrange(len(content))])
    (folder / name).write_bytes(content[:size])
    return f"{name} cut to {size} bytes"


def _extend(folder: Path, *, name: str, draw: random.Random) -> str:
    with (folder / name).open("ab") as file:
        file.write(draw.choice([b"\x00", b"PAR1", b"}", draw.randbytes(50)]))
    return name


def _remove(folder: Path, *, name: str) -> str:
    (folder / name).unlink()
    return name


def _copy(folder: Path, *, pair: list[str]) -> str:
    shutil.copyfile(folder / pair[0], folder / pair[1])
    return f"{pair[0]} over {pair[1]}"


def _swap(folder: Path, *, pair: list[str]) -> str:
    contents = [(folder / name).read_bytes() for name in pair]
    for name, content in zip(pair, reversed(contents), strict=True):
        (folder / name).write_bytes(content)
    return " and ".join(pair)


def _replace(folder: Path, *, name: str, draw: random.Random) -> str:
    (folder / name).unlink()
    if draw.random() < 0.5:
        (folder / name).mkdir()
        return f"{name} is a folder"
    target = draw.choice([name, "/etc/passwd", "/dev/null", "nowhere"])
    (folder / name).symlink_to(Path(target).name if target == name else target)
    return f"{name} is a link to {target}"


Entry = tuple[str | int, ...]


def _entries(value: Any, path: Entry = ()) -> Iterator[Entry]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield (*path, name)
        yield from _entries(inner, (*path, name))


def _edited(folder: Path, entry: Entry, change: Callable[[Any], Any]) -> str:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    inner = manifest
    for name in entry[:-1]:
        inner = inner[name]
    before = copy.deepcopy(inner[entry[-1]])
    after = change(before)
    if after is ...:
        del inner[entry[-1]]
    else:
        inner[entry[-1]] = after
    # Laid out as it was, so that the change is all there is.
    path.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    return f"{'.'.join(map(str, entry))}: {str(before)[:40]} to {'nothing' if after is ... else repr(after)[:40]}"


def _entry(folder: Path, *, entry: Entry, draw: random.Random | None) -> str:
    return _edited(folder, entry, lambda before: ... if draw is None else draw.choice(ODD))


def _number(folder: Path, *, entries: list[Entry], draw: random.Random) -> str:
    manifest = json.loads((folder / "manifest.json").read_text())

    def value(entry: Entry) -> Any:
        return functools.reduce(lambda inner, name: inner[name], entry, manifest)

    numbers = [item for item in entries if isinstance(value(item), int | float) and not isinstance(value(item), bool)]
    step = draw.choice([1, -1, 100, 10**9])
    return _edited(folder, draw.choice(numbers), lambda before: before + step)


def _cell(folder: Path, *, name: str, draw: random.Random) -> str:
    """A well-formed table that says something else."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(folder / name)
    column, row = draw.randrange(table.num_columns), draw.randrange(max(1, table.num_rows))
    rows = table.to_pylist()
    if not rows:
        return "nothing"
    field = table.schema[column]
    before = rows[row][field.name]
    changed = (not before) if isinstance(before, bool) else before + 1 if isinstance(before, int | float) else None
    rows[row][field.name] = changed if field.nullable or changed is not None else before
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), folder / name)
    return f"row {row}, column {field.name} of {name}"


def _others(draw: random.Random, count: int) -> Iterator[tuple[str, Callable[[Path], Any]]]:
    """What the tests of the store do to a run, with their `mutate`."""
    if importlib.util.find_spec("tests.helpers.run_damage") is not None:
        mutate = importlib.import_module("tests.helpers.run_damage").mutate
        for _ in range(count):
            yield "damage as in the tests of the store", functools.partial(mutate, draw=draw)


PART = Part(
    title="Damaged and forged runs",
    promise="A stored run that was damaged is refused with a message that names the file, or still says exactly "
    "what it said; it never says something else in silence.",
    run=run,
)
