"""Data at addresses: read as files are, and refused in one line that names the address."""

import importlib.util

import pandas as pd
import pytest

from attnfaith.data.source import open_data
from attnfaith.errors import InputError
from tests.helpers import other_file_systems
from tests.helpers.other_file_systems import UNREACHABLE

ROWS = pd.DataFrame({"text": ["a fine film", "a dull, long film", "superb"], "label": [1, 0, 1]})
WRITTEN = {
    "csv": ROWS.to_csv(index=False).encode(),
    "tsv": ROWS.to_csv(index=False, sep="\t").encode(),
    "jsonl": ROWS.to_json(orient="records", lines=True).encode(),
    "parquet": ROWS.to_parquet(index=False),
}


@pytest.fixture
def memory():
    with other_file_systems.in_memory() as system:
        yield system


def texts(data, **options):
    source = open_data(data, **options)
    return [row.text for _, rows in source.shards(2) for row in rows]


@pytest.mark.parametrize("kind", WRITTEN)
def test_every_kind_of_file(kind, memory, tmp_path):
    memory.pipe_file(f"/bucket/data/reviews.{kind}", WRITTEN[kind])
    assert texts(f"memory://bucket/data/reviews.{kind}") == ROWS["text"].tolist()
    (tmp_path / f"reviews.{kind}").write_bytes(WRITTEN[kind])
    assert texts(f"file://{tmp_path}/reviews.{kind}") == ROWS["text"].tolist()


def test_several_files_patterns_and_folders(memory, tmp_path):
    for name in "ab":
        memory.pipe_file(f"/bucket/{name}.csv", WRITTEN["csv"])
    twice = ROWS["text"].tolist() * 2
    assert texts(["memory://bucket/a.csv", "memory://bucket/b.csv"]) == twice
    assert texts("memory://bucket/*.csv") == twice
    memory.pipe_file("/folder/test.parquet", WRITTEN["parquet"])
    assert texts("memory://folder", split="test") == ROWS["text"].tolist()


def test_a_data_set_that_was_saved(memory, tmp_path):
    import datasets

    datasets.Dataset.from_pandas(ROWS).save_to_disk(str(tmp_path / "saved"))
    memory.put(str(tmp_path / "saved"), "/bucket/saved", recursive=True)
    assert texts("memory://bucket/saved") == ROWS["text"].tolist()


def test_errors_name_the_address(memory):
    memory.pipe_file("/bucket/bad.csv", b"text,label\na,b,c\n")
    with pytest.raises(InputError, match=r"'memory://bucket/bad\.csv' has 1 bad row: line 2") as refused:
        texts("memory://bucket/bad.csv")
    assert "tmp" not in str(refused.value)
    memory.pipe_file("/bucket/bad.parquet", b"PAR1")
    with pytest.raises(InputError, match=r"'memory://bucket/bad\.parquet' cannot be read as parquet"):
        texts("memory://bucket/bad.parquet")
    with pytest.raises(InputError, match=r"There is no file 'memory://bucket/none\.csv'\."):
        texts("memory://bucket/none.csv")
    with pytest.raises(InputError, match=r"There is no file 'memory://bucket/none-\*\.csv'\."):
        texts("memory://bucket/none-*.csv")
    with pytest.raises(InputError, match="Give one kind"):
        texts(["memory://bucket/bad.csv", "reviews.csv"])


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("s3://bucket/reviews.csv", "pip install s3fs"),
        ("gs://bucket/*.parquet", "pip install gcsfs"),
        ("abfs://bucket/reviews.csv", "pip install adlfs"),
        ("sftp://host/reviews.csv", "paramiko"),
        ("nowhere://host/reviews.csv", "Protocol not known: nowhere"),
        (f"{UNREACHABLE}://bucket/reviews.csv", "NoCredentialsError: Unable to locate credentials. Check the address"),
    ],
)
def test_what_cannot_be_reached_is_told_in_one_line(address, said):
    if said.startswith("pip install") and importlib.util.find_spec(said.rpartition(" ")[2]):
        pytest.skip("the package is installed")
    with other_file_systems.without_access(), pytest.raises(InputError) as refused:
        texts(address)
    assert said in str(refused.value)
    assert repr(address) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_name_on_the_hub_without_a_network_is_told_in_one_line():
    told = r"^'hf://datasets/nobody/nothing/a\.csv' cannot be reached: .*\. \[data-not-found\]$"
    with pytest.raises(InputError, match=told):
        texts("hf://datasets/nobody/nothing/a.csv")
