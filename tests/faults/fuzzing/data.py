"""Made-up texts to explain, and made-up data to evaluate, in containers and files."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.faults import material
from tests.faults.fuzzing.models import MODELS, Untouched, attributor_of, evaluator_of
from tests.faults.fuzzing.values import any_label, any_text, odd_value, plain_value


def texts() -> SearchStrategy[Any]:
    """A text, a pair, a list of them, for one of several methods."""
    item = st.one_of(any_text, st.tuples(any_text, any_text))
    given = st.one_of(item, st.lists(item, max_size=4), odd_value)
    method = st.sampled_from(
        [("attention", "attention"), ("gradient", "input"), ("lrp", "input"), ("random", "attention")]
    )
    return st.tuples(st.sampled_from(sorted(MODELS)), method, given)


def explained(example: Any) -> None:
    """As many finite scores as items, JSON without NaN, and one explanation for each text."""
    family, (method, level), given = example
    with Untouched(family):
        result = attributor_of(family, method, level)(given)
        results = result if isinstance(given, list) else [result]
        assert len(results) == (len(given) if isinstance(given, list) else 1)
        for item in results:
            assert len(item.scores) == len(item.spans) == len(item.tokens)
            assert all(math.isfinite(score) for score in item.scores) or item.notes, (
                "scores that are no numbers, unsaid"
            )
            assert sorted(item.ranking()) == list(range(len(item.scores)))
            json.dumps(item.to_dict(), allow_nan=False)
            item._repr_html_().encode("utf-8"), repr(item), item.words(), item.sentences()


def cells() -> SearchStrategy[Any]:
    """Rows of any cells, in each of the containers."""
    row = st.fixed_dictionaries(
        {"text": st.one_of(any_text, any_text, any_text, odd_value), "label": any_label},
        optional={"scores": odd_value, "x": odd_value},
    )
    pair = st.sampled_from(["list", "frame", "columns", "tuple", "generator", "odd"])
    return st.tuples(pair, st.lists(row, max_size=6), st.booleans(), st.sampled_from([None, "scores"]))


def evaluated_cells(example: Any) -> None:
    """What comes out counts every row: judged or set aside."""
    kind, rows, labelled, scores = example
    data: Any = {
        "list": lambda: rows,
        "frame": lambda: pd.DataFrame(rows),
        "columns": lambda: {name: [row.get(name) for row in rows] for name in ("text", "label")},
        "tuple": lambda: tuple(rows),
        "generator": lambda: (row for row in rows),
        "odd": lambda: rows[0]["text"] if rows else None,
    }[kind]()
    explanations = {"mine": scores} if scores else None
    evaluate(data, len(rows), label_column="label" if labelled else None, explanations=explanations)


def evaluate(data: Any, count: int | None, **options: Any) -> None:
    with Untouched("FLAN"):
        asked = {"rankings": ["attention"], "tests": ["erasure"], "level": "attention", "n_resamples": 9, "quiet": True}
        results = evaluator_of("FLAN").compute(data, **{**asked, **options})
        counts = results.manifest["counts"]
        assert count is None or counts["rows"] == count, f"{counts['rows']} rows of {count}"
        assert counts["texts"] + sum(counts["aside"].values()) == counts["rows"]
        table = results.table("texts")
        assert len(table) == counts["rows"]
        assert results.verdict.label in ("faithful", "partly", "unfaithful", "undecided", "unfaithful or partly")
        str(results), results.summary()
        fractions = results.table("erasure")["fraction"].dropna()
        assert ((fractions >= 0) & (fractions <= 1)).all()


_FILES = [".csv", ".tsv", ".jsonl", ".json", ".parquet"]


def files() -> SearchStrategy[Any]:
    """Files of data: well-formed ones with any cells, and bytes that are damaged or just any."""
    row = st.fixed_dictionaries({"text": any_text, "label": st.sampled_from([0, 1])}, optional={"more": plain_value})
    damage = st.one_of(
        st.none(), st.tuples(st.integers(0, 2**16), st.binary(min_size=1, max_size=6)), st.integers(0, 2**16)
    )
    return st.tuples(
        st.sampled_from(_FILES),
        st.lists(row, max_size=6),
        damage,
        st.one_of(st.none(), st.none(), st.binary(max_size=60)),
    )


def evaluated_files(example: Any) -> None:
    """An undamaged file is read with all its rows; a damaged one is read or refused."""
    suffix, rows, damage, raw = example
    content = _file_of(suffix, rows) if raw is None else raw
    if isinstance(damage, tuple):
        index = damage[0] % (len(content) + 1)
        content = content[:index] + damage[1] + content[index + len(damage[1]) :]
    elif isinstance(damage, int):
        content = content[: damage % (len(content) + 1)]
    path = material.scratch() / f"data{suffix}"
    path.write_bytes(content)
    whole = raw is None and damage is None and rows and any(row["text"].strip() for row in rows)
    evaluate(path, len(rows) if whole and suffix not in (".csv", ".tsv") else None)


def _file_of(suffix: str, rows: list[dict[str, Any]]) -> bytes:
    if suffix == ".parquet":
        columns = {name: [_utf8(row[name]) for row in rows] for name in ("text", "label")}
        sink = io.BytesIO()
        pq.write_table(pa.table(columns, pa.schema([("text", pa.string()), ("label", pa.int64())])), sink)
        return sink.getvalue()
    if suffix in (".csv", ".tsv"):
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, delimiter="," if suffix == ".csv" else "\t")
        writer.writerow(["text", "label"])
        writer.writerows([row["text"].replace("\x00", ""), row["label"]] for row in rows)
        return stream.getvalue().encode("utf-8", "replace")
    if suffix == ".json":
        return json.dumps(rows).encode()
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _utf8(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
