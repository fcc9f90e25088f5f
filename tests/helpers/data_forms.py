"""One small data set in every form that data may have: a list, a frame, files of each kind, a stream."""

import csv
import json

import pandas as pd
from datasets import Dataset, DatasetDict, IterableDataset

from attnfaith.data.source import ModelLabels, Row

THREE = ModelLabels("multiclass", ("bad", "so-so", "good"), 3)
TEXTS = ["A fine film.", "NA", 'She said "no, never".', "2020-01-01", "two\nlines", "12", None, "naïve ☕"]
GOLD = [2, 0, 0, 1, 2, 0, 1, None]
MINE = [[0.5, 1.0], [2.0], [], [0.0], [-1.5, 0.25], [1.0], [3.0], [1e-9]]


def records():
    return [{"text": t, "label": g, "mine": m} for t, g, m in zip(TEXTS, GOLD, MINE, strict=True)]


def expected_rows():
    return [Row(n, t, None, g, {"mine": tuple(m)}) for n, (t, g, m) in enumerate(zip(TEXTS, GOLD, MINE, strict=True))]


def rows_of(source, size=3):
    return [row for _, rows in source.shards(size) for row in rows]


def write_csv(path, delimiter=","):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["text", "label", "mine", "rest"])
        for row in records():
            writer.writerow([row["text"], row["label"], json.dumps(row["mine"]), "x"])


def write_lines(path):
    path.write_text("".join(json.dumps(row) + "\n" for row in records()), encoding="utf-8")


def in_form(name, folder):
    data = Dataset.from_list(records())
    if name == "csv":
        write_csv(folder / "a.csv")
        return folder / "a.csv"
    if name == "tsv":
        write_csv(folder / "a.tsv", "\t")
        return str(folder / "a.tsv")
    if name == "lines":
        write_lines(folder / "a.jsonl")
        return folder / "a.jsonl"
    if name == "json list":
        (folder / "a.json").write_text(json.dumps(records(), indent=1))
        return folder / "a.json"
    if name == "two files":
        half = len(TEXTS) // 2
        for part, rows in (("a", records()[:half]), ("b", records()[half:])):
            (folder / f"{part}.ndjson").write_text("\n".join(map(json.dumps, rows)))
        return str(folder / "*.ndjson")
    if name == "parquet":
        data.to_parquet(folder / "a.parquet")
        return [folder / "a.parquet"]
    if name == "saved":
        data.save_to_disk(folder / "saved")
        return folder / "saved"
    if name == "folder":
        data.to_parquet(folder / "train.parquet")
        return folder
    return {
        "list": records(),
        "frame": pd.DataFrame(records(), index=range(7, 7 + len(TEXTS))),
        "dataset": data,
        "as tensors": data.with_format("torch", columns=["label"]),
        "shuffled twice": data.select(range(len(TEXTS) - 1, -1, -1)).select(range(len(TEXTS) - 1, -1, -1)),
        "stream": data.to_iterable_dataset(num_shards=2),
        "generated": IterableDataset.from_generator(records),
        "one split": DatasetDict(whatever=data),
    }[name]


FORMS = "list frame dataset csv tsv lines parquet saved folder stream generated".split()
FORMS += ["json list", "two files", "as tensors", "shuffled twice", "one split"]
