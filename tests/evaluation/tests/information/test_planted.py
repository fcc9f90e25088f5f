"""Information of models made by hand: one word of each text decides, and is attended most, least, or as all others."""

import math

import pyarrow as pa
import torch

import attnfaith as af
from attnfaith.evaluation.tests.base import schema_of
from attnfaith.evaluation.tests.information.test import Information
from attnfaith.storage.run_store import Store
from tests.helpers.removal_batches import batch_of

WORDS = 60


def planted(*, attends, seed=0):
    """A FLAN without encoder that reads one dimension; its attention looks at another.

    Words 4 to 11 decide, by their dimension 1. Where it attends to "what decides" they stand out in dimension 0, where
    it attends to "the rest" they are hidden there; where it attends to "nothing" all weights are alike.
    """
    draw = torch.Generator().manual_seed(seed)
    model = af.models.from_preset("FLANnoenc", num_labels=2, vocab_size=WORDS + 4, embedding_size=8).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        words = model.get_input_embeddings().weight
        words[4:, 2:] = torch.randn(WORDS, 6, generator=draw)
        words[4:, 0] = (0.3 if attends == "what decides" else 0.02) * torch.randn(WORDS, generator=draw)
        words[4:12, 1] = torch.tensor([-2.0, -1.5, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0])
        words[4:12, 0] = {"what decides": 3.0, "the rest": -0.3, "nothing": 0.0}[attends]
        model.attention.project.weight[0, 0] = 1.0
        model.attention.context.weight[0, 0] = 0.0 if attends == "nothing" else 4.0
        model.classifier.weight[1, 1] = 4.0
    return model


def planted_batches(model, longest, count=480, seed=1):
    """Texts of 6 words or more; one of them decides, anywhere."""
    draw = torch.Generator().manual_seed(seed)
    cut = af.cut(model, check=False)
    for start in range(0, count, 40):
        lengths = torch.randint(6, longest + 1, (40,), generator=draw).tolist()
        ids = torch.zeros(40, 9, dtype=torch.long)
        for text, length in enumerate(lengths):
            ids[text, :length] = torch.randint(12, WORDS + 4, (length,), generator=draw)
            index = int(torch.randint(length, (), generator=draw))
            ids[text, index] = int(torch.randint(4, 12, (), generator=draw))
        inputs = {"input_ids": ids, "attention_mask": (ids > 0).long()}
        yield batch_of("FLANnoenc", cut=cut, inputs=inputs, numbers=list(range(start, start + 40)))


def planted_figures(folder, attends, longest=9):
    test = Information(clusters=60)
    store = Store.open(folder, {"run": {"decision": {"kind": "multiclass"}}, "shard_size": 40, "rows": 480})
    texts = schema_of([("text_id", pa.int64()), ("prediction", pa.int64()), ("aside", pa.string())])
    for shard, batch in enumerate(planted_batches(planted(attends=attends), longest)):
        numbers = [row.number for row in batch.rows]
        about = {"text_id": numbers, "prediction": batch.logits.argmax(1).tolist(), "aside": [None] * len(numbers)}
        rows = pa.table(test.run(batch), schema_of(test.columns(pa.int64())))
        store.write(shard, {"texts": pa.table(about, texts), "information": rows}, "rows")
    store.finish({})
    tables = {
        "information_by_rank": test.conclude(store, seed=0, quiet=True)["information_by_rank"].to_pandas(),
        "texts": store.table("texts"),
    }
    return test.summarise(tables.__getitem__, by=None, confidence_level=0.95, seed=0)


def figure(summary, name, rank=""):
    (row,) = summary[(summary.figure == name) & (summary.other == rank)].to_dict("records")
    return row


def test_a_model_whose_most_attended_word_decides_says_it_there(tmp_path):
    summary = planted_figures(tmp_path / "run", "what decides")
    tau = figure(summary, "weighted_kendall")
    assert tau["value"] > 0.8
    assert tau["low"] > 0.7
    assert figure(summary, "informative")["value"] >= 1
    first, second = (figure(summary, "mi_corrected", rank) for rank in "01")
    assert first["value"] > 0.8 * figure(summary, "output_entropy")["value"]
    assert second["high"] < 0.1 < first["low"]
    assert abs(second["value"]) < 0.05 < figure(summary, "mi", "1")["value"]


def test_attention_that_is_uniform_and_ignored_has_no_order_to_compare(tmp_path):
    summary = planted_figures(tmp_path / "run", "nothing")
    tau = figure(summary, "weighted_kendall")
    assert math.isnan(tau["value"])
    assert tau["note"] == "the mean attention of all ranks is alike"
    message = [figure(summary, "mi_corrected", str(rank))["value"] for rank in range(6)]
    assert max(message) < 0.5 * figure(summary, "output_entropy")["value"]


def test_a_model_that_attends_to_all_but_the_deciding_word_says_it_last(tmp_path):
    summary = planted_figures(tmp_path / "run", "the rest", longest=6)
    tau = figure(summary, "weighted_kendall")
    assert tau["low"] < 0
    assert tau["value"] < 0.5
    assert figure(summary, "informative")["value"] == 1
    first, last = (figure(summary, "mi_corrected", rank) for rank in "05")
    assert first["high"] < 0.1
    assert last["low"] > 0.5 * figure(summary, "output_entropy")["value"]
