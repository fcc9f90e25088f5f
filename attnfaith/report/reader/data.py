"""The data of the reader: the texts that a run has stored, in the short form that its script reads.

The keys of a text, and of each of its levels of erasing (the entries of ``l``), are single letters::

    key   of a text                                            of a level
    n     the number of its row                                how many items can be erased
    p, g  prediction and gold label
    r     whether the prediction is right                      a row for each ranking, see _ranking_row
    t     tokens
    b     what stands before each token, and after the last one
    s     the places of special tokens
    q     the place of the first token of the second text
    x     how many characters are not stored
    m                                                          the items of the smallest flipping set known
    i                                                          the tokens of each item, see _item_ranges
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from attnfaith.attribution.display_names import display_name, role_of
from attnfaith.attribution.method import methods
from attnfaith.errors import StorageError
from attnfaith.escaping import visible
from attnfaith.evaluation.run_manifest import STORED
from attnfaith.evaluation.stored_texts import STEPS, TEXTS, UNITS
from attnfaith.functional.keyed_order import rows_at
from attnfaith.storage.sealed_table import short_reason

if TYPE_CHECKING:
    from attnfaith.evaluation.results import Results

MOST_BYTES = 16_000_000
"""The most bytes that the texts take in the page; further texts are left out, and the page says how many."""
LONGEST_TOKEN = 200
"""The most characters that are shown of a token."""
LONGEST_GAP = 400
"""The most characters that are shown between two tokens, such as the end of a text that the model does not read."""
LONGEST_NAME = 80
"""The most characters that are shown of a label, or of the name of a ranking."""
GRADES = 30
"""How many strengths of colour there are for positive scores, and as many for negative ones."""
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_UNDEFINED = "-"
_GRADED = [
    _LETTERS[GRADES + int(math.copysign(math.ceil(abs(score) * GRADES / UNITS), score))]
    for score in range(-UNITS, UNITS + 1)
]
Key = tuple[str, str]
Row = Mapping[Hashable, Any]


def reader_data(results: Results, *, most_bytes: int = MOST_BYTES) -> dict[str, Any] | None:
    """The facts, the rankings and the texts, as JSON values; None for a run that has stored no texts.

    All strings are shown as they are: invisible characters are escaped (`attnfaith.escaping.visible`).

    Args:
        results: of the run.
        most_bytes: see `MOST_BYTES`.
    """
    if STORED not in results.manifest["run"]:
        return None
    steps = results.table(STEPS)
    if not len(steps):
        return None
    try:
        return _data(results, steps, most_bytes)
    except (ValueError, LookupError, TypeError) as error:  # tables can come from somebody else
        raise StorageError(
            f"The tables {TEXTS!r} and {STEPS!r} in {results.location!r} contradict each other: "
            f"{short_reason(error)}. Restore the folder from a copy, or run again into another one."
        ) from error


def _data(results: Results, steps: pd.DataFrame, most_bytes: int) -> dict[str, Any]:
    texts = {row["text_id"]: row for row in results.table(TEXTS).to_dict("records")}
    facts = results.table("texts")
    decisions = {row["text_id"]: row for row in facts[facts["text_id"].isin(texts.keys())].to_dict("records")}
    levels = [level for level in results.manifest["facts"]["levels"] if (steps["erase_level"] == level).any()]
    rankings = {level: _rankings(steps[steps["erase_level"] == level]) for level in levels}
    by_text: dict[int, dict[str, dict[Key | None, Row]]] = {}
    for row in steps.to_dict("records"):
        key = (row["ranking_level"], row["ranking"]) if isinstance(row["ranking"], str) else None
        by_text.setdefault(row["text_id"], {}).setdefault(row["erase_level"], {})[key] = row
    shown: list[dict[str, Any]] = []
    left = most_bytes
    for number in _in_random_order(results.manifest, by_text):
        entry = {
            **_text_entry(texts[number]),
            **_decision_entry(number, decisions[number]),
            "l": [_level_entry(by_text[number].get(level), texts[number], level, rankings[level]) for level in levels],
        }
        left -= len(json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode())
        if left < 0 and shown:
            break
        shown.append(entry)
    decision = results.manifest["facts"]["decision"]
    shown.sort(key=lambda entry: entry["n"])
    return {
        "facts": {
            "rows": results.manifest["counts"]["rows"],
            "stored": len(by_text),
            "shown": len(shown),
            "most": results.manifest["run"][STORED],
            "stream": results.manifest["rows"] is None,
            "labelled": any(entry["r"] is not None for entry in shown),
        },
        "kind": decision,
        "labels": _labels(results.manifest["facts"]["labels"], decision, shown, steps),
        "levels": [
            {
                "name": level,
                "unit": results.manifest["facts"]["unit"][level],
                "rankings": [_ranking_entry(key, rankings[level]) for key in rankings[level]],
            }
            for level in levels
        ],
        "texts": shown,
    }


def _in_random_order(manifest: Mapping[str, Any], numbers: Collection[int]) -> list[int]:
    """The texts in the order of the sample, so that its beginning is a random sample too; of a stream as they came."""
    rows = manifest["rows"]
    if rows is None:
        return sorted(numbers)
    order = rows_at(np.arange(min(rows, manifest["run"][STORED])), rows, manifest["run"]["seed"])
    return [number for number in order.tolist() if number in numbers]


def _rankings(steps: pd.DataFrame) -> list[Key]:
    """The rankings of one level in the order of the run."""
    ranked = steps[steps["ranking"].notna()]
    return list(dict.fromkeys(zip(ranked["ranking_level"], ranked["ranking"], strict=True)))


def _ranking_entry(key: Key, keys: Sequence[Key]) -> dict[str, Any]:
    method = methods.get(key)
    return {
        "name": _shortened(display_name(key, keys), LONGEST_NAME),
        "role": "attention" if key[1] == "attention" else role_of(key),
        "signed": method is not None and method.signed,
    }


def _labels(names: Sequence[str], kind: str, shown: Iterable[Mapping[str, Any]], steps: pd.DataFrame) -> list[str]:
    """The name of each class that occurs."""
    if kind == "regression":
        return ["value"]
    classes = [number for entry in shown for number in (*_listed(entry["p"]), *_listed(entry["g"]))]
    most = max([*classes, *(int(max(line, default=0)) for line in steps["classes"])], default=0) + 1
    fits = len(names) >= most
    return [_shortened(names[number], LONGEST_NAME) if fits else f"class {number}" for number in range(most)]


def _listed(value: Any) -> list[int]:
    return [] if value is None else list(value) if isinstance(value, list) else [int(value)]


def _decision_entry(number: int, row: Row) -> dict[str, Any]:
    correct = row["correct"]
    return {
        "n": number,
        "p": _plain(row["prediction"]),
        "g": _plain(row["gold"]),
        "r": None if correct is None or pd.isna(correct) else bool(correct),
    }


def _plain(value: Any) -> Any:
    """A label as JSON: a number, a list of numbers, or None."""
    if isinstance(value, list | np.ndarray):
        return [int(each) for each in value]
    if value is None or pd.isna(value):
        return None
    return float(f"{value:.4g}") if isinstance(value, float) else int(value)


def _text_entry(row: Row) -> dict[str, Any]:
    """The tokens, what stands before each of them and after the last, and which of them are special.

    A token shows its characters in the text. Where several tokens have the same characters, the first of them shows
    these, and the others a dot.
    """
    texts = [row["text"], row["pair"] if isinstance(row["pair"], str) else ""]
    starts, ends, segments = (_integers(row[name]) for name in ("starts", "ends", "segments"))
    names = json.loads(row["names"])
    last = {segment: index for index, segment in enumerate(segments) if segment is not None}
    tokens, gaps, special, cursors = [], [], [], [0, 0]
    behind = ""
    for index, (start, end, segment, name) in enumerate(zip(starts, ends, segments, names, strict=True)):
        gap, shown = behind, name or "·"
        behind = ""
        if segment is not None and start is not None and end is not None:
            text, cursor = texts[segment], cursors[segment]
            gap += text[cursor : max(start, cursor)]
            shown = text[max(start, cursor) : end] or "·"
            cursors[segment] = max(end, cursor)
        if segment is not None and last[segment] == index:
            behind = texts[segment][cursors[segment] :]
        gaps.append(_shortened(gap, LONGEST_GAP))
        tokens.append(_shortened(shown, LONGEST_TOKEN))
        special.append(segment is None)
    gaps.append(_shortened(behind, LONGEST_GAP))
    pair = next((index for index, segment in enumerate(segments) if segment == 1), None)
    return {
        "t": tokens,
        "b": gaps,
        "s": [index for index, flag in enumerate(special) if flag],
        **({} if pair is None else {"q": pair}),
        **({"x": int(row["left_out"])} if row["left_out"] else {}),
    }


def _shortened(text: str, length: int) -> str:
    """A text for display, with its middle left out if it is long."""
    if len(text) > length:
        half = length // 2
        text = f"{text[:half]} … {len(text) - 2 * half:,} characters … {text[-half:]}"
    return visible(text, "\n\t")


def _level_entry(
    rows: Mapping[Key | None, Row] | None, text: Row, level: str, rankings: Sequence[Key]
) -> dict[str, Any] | None:
    """One level of erasing; None for a text that was not erased there, since it has a single item."""
    if rows is None:
        return None
    entry: dict[str, Any] = {"n": int(rows[rankings[0]]["items"])}
    if level == "attention":
        entry |= _item_ranges(text)
    if None in rows:
        entry["m"] = [int(item) for item in rows[None]["removed"]]
    entry["r"] = [_ranking_row(rows[key]) for key in rankings]
    return entry


def _item_ranges(text: Row) -> dict[str, Any]:
    """The tokens of each item, as (first, number of tokens); nothing if each token is an item, None if not known."""
    if text["item_starts"] is None or text["item_ends"] is None:
        return {"i": None}
    starts, ends = (list(map(int, text[name])) for name in ("item_starts", "item_ends"))
    if starts == list(range(len(text["starts"]))) and ends == [start + 1 for start in starts]:
        return {}
    return {"i": [[start, end - start] for start, end in zip(starts, ends, strict=True)]}


def _ranking_row(row: Row) -> list[Any]:
    """The strengths as letters, the items in the order of removal, whether it flips, and the trail."""
    return [graded(row["scores"]), [int(item) for item in row["removed"]], int(row["flips"]), *_trail(row)]


def graded(scores: Iterable[Any]) -> str:
    """Scores in `UNITS` as letters: `GRADES` below and above zero, and "-" for undefined ones.

    Example:
        >>> graded([-1000, 0, 20, 1000, None])
        '0UVy-'
    """
    return "".join(_UNDEFINED if score is None or score != score else _GRADED[int(score) + UNITS] for score in scores)


def _trail(row: Row) -> list[Any]:
    """The steps, the classes, and their outputs at each step: with four digits."""
    classes = [int(number) for number in row["classes"]]
    outputs = [float(f"{value:.4g}") for value in row["outputs"]]
    return [[int(step) for step in row["steps"]], classes, outputs]


def _integers(values: Iterable[Any]) -> list[int | None]:
    return [None if value is None or value != value else int(value) for value in values]
