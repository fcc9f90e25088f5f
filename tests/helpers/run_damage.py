"""Seeded damage to a stored run, and the check that none of it goes unnoticed.

`mutate` does one thing to a run: it flips bits, cuts, swaps, copies, removes or adds files, or edits the manifest.
`outcome` loads a run and says what a reader sees: everything as it was, or a documented error. `survey` does both many
times. The manifest's edits come in two kinds. "edit" leaves its digest alone, as a damaged disk or a text editor would;
nothing of that may go unnoticed. "forge" computes the digest anew, as an attacker would, who could as well make a run
of his own: then other figures are no surprise, but only documented errors may come out.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attnfaith as af
from attnfaith.storage.manifest import NAME, to_bytes

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 0.5, -0.0, 1e12, 10**12, 10**9, 2**63, 10**400, 1e308, float("nan"),
    float("inf"), "", "word", "0", "\0", "\ud800", "../../etc", "x" * 100_000, [], [[]], [1], ["a"], {}, {"a": 1},
    "../texts", "erasure",
]  # fmt: skip
RAW: list[Callable[[bytes], bytes]] = [
    lambda content: b"",
    lambda content: b"[" * 100_000,
    lambda content: content.replace(b'"rows"', b'"rows": 1, "rows"', 1),  # a key twice
    lambda content: content.replace(b'"seed": ', b'"seed": ' + b"9" * 5000, 1),
    lambda content: content.replace(b'"texts"', b'"te\xff\xfets"', 1),
    lambda content: content.replace(b'"texts"', b'"te\0ts"', 1),
    lambda content: content + b"{}",
    lambda content: b"\xef\xbb\xbf" + content,
    lambda content: content.replace(b"\n", b"\r\n"),
    lambda content: json.dumps(json.loads(content)).encode(),
    lambda content: content.replace(b'"layout": 2', b'"layout": 3', 1),
    lambda content: content.replace(b'"layout": 2,', b"", 1),
    lambda content: content.replace(b'"seed": ', b'"seed": NaN, "old": ', 1),
]
KINDS = (
    "bits", "bytes", "cut", "grow", "swap", "copy", "remove", "link", "pipe", "add", "raw", "edit", "forge", "folder",
)  # fmt: skip


def mutate(run: Path, draw: random.Random) -> str:
    """Damage a run in one way, drawn at random; what was done comes back, its kind first."""
    kind = draw.choice(KINDS)
    files = sorted(path for path in run.rglob("*") if path.is_file())
    path = draw.choice(files)
    name = path.relative_to(run)
    if kind in ("raw", "edit", "forge"):
        return f"{kind}: {_manifest(run / NAME, kind, draw)}"
    if kind == "bits":
        return f"bits of {name} at {_flip(path, draw, draw.choice((1, 1, 1, 2, 8)))}"
    if kind == "bytes":
        content = bytearray(path.read_bytes())
        start = draw.randrange(len(content))
        content[start : start + 8] = draw.randbytes(8)
        path.write_bytes(content)
    elif kind == "cut":
        path.write_bytes(path.read_bytes()[: draw.randrange(path.stat().st_size)])
    elif kind == "grow":
        path.write_bytes(path.read_bytes() + draw.choice((b"\0", b"PAR1", draw.randbytes(100))))
    elif kind in ("swap", "copy"):
        other = draw.choice([file for file in files if file != path])
        mine, its = path.read_bytes(), other.read_bytes()
        path.write_bytes(its)
        if kind == "swap":
            other.write_bytes(mine)
        return f"{kind}: {name} and {other.relative_to(run)}"
    elif kind == "remove":
        path.unlink()
    elif kind == "link":
        aside = run.with_name("aside")
        aside.write_bytes(path.read_bytes())
        path.unlink()
        path.symlink_to(aside)
    elif kind == "pipe":
        path.unlink()
        os.mkfifo(path)
    elif kind == "add":
        return f"add: {_add(run, path, draw)}"
    else:
        return f"folder: {_folder(run, draw)}"
    return f"{kind}: {name}"


def outcome(run: Path) -> Any:
    """What a reader of a run sees: its verdict, summary, tables and counts; or the documented error."""
    try:
        results = af.load_results(run)
        tables = {name: results.table(name).to_json(double_precision=15) for name in results.tables}
        return str(results), results.summary().to_json(double_precision=15), tables, results.manifest
    except (af.InputError, af.StorageError) as error:
        return error


def survey(run: Path, aside: Path, count: int, *, seed: int = 0) -> Counter[str]:
    """Damage copies of a run, one way each, and compare what a reader sees with the undamaged run.

    Args:
        run: a finished run.
        aside: a folder for the copies.
        count: how many.
        seed: of what is drawn.

    Returns:
        How often damage of each kind was refused, changed nothing ("same"), or was a forgery that was taken ("taken").

    Raises:
        AssertionError: damage went unnoticed, and what is read has changed.
    """
    calm = outcome(run)
    assert isinstance(calm, tuple), calm
    result: Counter[str] = Counter()
    for number in range(count):
        draw = random.Random(f"{seed}/{number}")
        copy = aside / "copy"
        shutil.rmtree(aside, ignore_errors=True)
        shutil.copytree(run, copy)
        done = mutate(copy, draw)
        try:
            seen = outcome(copy)
        except Exception as error:
            raise AssertionError(f"seed {seed}, mutation {number} ({done}): {error!r} is not documented") from error
        kind = done.partition(" ")[0].strip(":")
        assert isinstance(seen, tuple) or len(str(seen)) < 2000, (
            f"mutation {number} ({done}): the message holds a whole file"
        )
        ending = "refused" if isinstance(seen, Exception) else "same" if seen == calm else "taken"
        assert ending != "taken" or kind == "forge", f"seed {seed}, mutation {number} ({done}) changed what is read"
        result[f"{kind}: {ending}"] += 1
    return result


def _flip(path: Path, draw: random.Random, count: int) -> list[int]:
    content = bytearray(path.read_bytes())
    indices = draw.sample(range(8 * len(content)), count)
    for index in indices:
        content[index // 8] ^= 1 << index % 8
    path.write_bytes(content)
    return indices


def _add(run: Path, path: Path, draw: random.Random) -> str:
    """A file too many: a copy under another name, what a killed writer leaves, or anything."""
    name = draw.choice(
        [
            "erasure.parquet",
            "texts.parquet",
            "other.parquet",
            "texts/00007.parquet",
            "texts/000001.parquet",
            "texts/00001.parquet.bak",
            "texts/\u0660\u0660\u0660\u0660\u0661.parquet",
            "new/00000.parquet",
            f".{NAME}~host~12",
            "texts/.00001.parquet~host~12~3",
            "notes.txt",
        ]
    )
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).write_bytes(path.read_bytes() if draw.random() < 0.7 else draw.randbytes(64))
    return name


def _folder(run: Path, draw: random.Random) -> str:
    """A whole table that is gone, that is elsewhere, or that has another's place."""
    tables = sorted(path for path in run.iterdir() if path.is_dir())
    table, other = draw.sample(tables, 2)
    done = draw.choice(("removed", "linked", "swapped", "doubled"))
    if done == "removed":
        shutil.rmtree(table)
    elif done == "linked":
        table.rename(run.with_name("elsewhere"))
        table.symlink_to(run.with_name("elsewhere"))
    elif done == "swapped":
        table.rename(run / "between")
        other.rename(table)
        (run / "between").rename(other)
    else:
        shutil.rmtree(other)
        shutil.copytree(table, other)
    return f"{table.name} {done} ({other.name})"


def _manifest(path: Path, kind: str, draw: random.Random) -> str:
    if kind == "raw":
        number = draw.randrange(len(RAW))
        path.write_bytes(RAW[number](path.read_bytes()))
        return f"number {number}"
    manifest = json.loads(path.read_bytes())
    layout, digest = manifest.pop("layout"), manifest.pop("digest")
    index = draw.choice(_places(manifest))
    part: Any = manifest
    for key in index[:-1]:
        part = part[key]
    last, done = index[-1], draw.choice(("set", "set", "set", "set", "near", "remove", "double", "reorder"))
    if done == "near" and isinstance(part[last], int | float):
        part[last] = part[last] + draw.choice((-1, 1))
    elif done == "remove":
        del part[last]
    elif done == "double" and isinstance(part, dict):
        part[f"{last} "] = part[last]
    elif done == "reorder" and isinstance(part, dict) and len(part) > 1:
        value = part.pop(last)
        rest = dict(part)
        part.clear()
        part |= {last: value, **rest} if next(iter(rest)) != last else rest
    else:
        done = "set"
        part[last] = draw.choice(VALUES)
    try:
        content = to_bytes(manifest)
    except af.StorageError:
        content = b"{}"
    if kind == "edit":
        whole = {"layout": layout, **manifest, "digest": digest}
        content = (json.dumps(whole, indent=2) + "\n").encode()
    path.write_bytes(content)
    return f"{done} {'.'.join(map(str, index))} -> {str(part)[:80]!r}"


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every field, those of containers included."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [result for key, part in inner for result in ((*path, key), *_places(part, (*path, key)))]
