"""Rows of the in-distribution test: which sets are read, beside loops; its p values on planted texts with holes."""

import numpy as np
import pandas as pd
import pytest
import torch

import attnfaith as af
from attnfaith.errors import InputError
from attnfaith.evaluation.removal import ERASERS
from attnfaith.evaluation.tests.base import resolve_tests
from attnfaith.evaluation.tests.erasure.test import Erasure
from attnfaith.evaluation.tests.in_distribution.p_values import p_value_table
from attnfaith.evaluation.tests.in_distribution.states import states_of
from attnfaith.evaluation.tests.in_distribution.test import COLUMNS, InDistribution
from attnfaith.evaluation.text_cost import TextCost
from attnfaith.functional.statistics import benjamini_hochberg
from attnfaith.tiny_models import tiny_model
from tests.helpers import commands
from tests.helpers import tokenizers as tokenizers
from tests.helpers.removal_batches import batch_of, ranked

LEVELS = {
    level: ranked("attention/attention", "attention/gradient", f"{level}/random") for level in ("attention", "input")
}
LEVELS["input"] = ranked("input/attention", "attention/gradient", "input/random")


def rows_of(columns):
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    result = {(row["text_id"], row["ranking"], row["erase_level"]): row for row in rows}
    assert len(result) == len(rows)
    return result


@pytest.mark.parametrize("family", ["FLANrnn", "bert"])
@pytest.mark.parametrize("hide", [None, "mask_token"])
def test_it_reads_the_whole_text_and_every_text_at_its_flip(family, hide):
    batch = batch_of(family, rankings=LEVELS, hide=hide)
    erasure = pd.DataFrame(Erasure().run(batch)).set_index(["text_id", "ranking", "erase_level"])
    for every in (False, True):
        rows = rows_of(InDistribution(every_ranking=every).run(batch))
        assert {key[1] for key in rows} == {
            None,
            "attention",
            "random",
            "smallest_set",
            *(["gradient"] if every else []),
        }
        for (text, name, level), row in rows.items():
            assert list(row) == [column for column, _ in COLUMNS]
            eraser = ERASERS[level](batch)
            gone = torch.zeros_like(eraser.items[text])
            if name == "smallest_set":
                gone = batch.erased[level].smallest[text]
                high = erasure.loc[(text, "random", level), "minimum_high"]
                assert gone.sum() == (0 if pd.isna(high) else high)
            elif name is not None:
                flipped = erasure.loc[(text, name, level)]
                ranking = next(item for item in LEVELS[level] if item.name == name)
                count = 0 if flipped["censored"] else int(flipped["removed"])
                gone[eraser.order_by(ranking)[text, :count]] = True
            if name is not None and not gone.any():
                assert (row["vector"], row["removed"], row["length"]) == (None, None, None)
                continue
            expected = states_of(eraser, torch.tensor([text]), gone.unsqueeze(0))[0]
            np.testing.assert_allclose(row["vector"], expected.float().numpy(), atol=1e-6, rtol=1e-5)
            there = int(eraser.items[text].sum())
            shortens = level == "attention" or hide is None
            assert (row["items"], row["removed"]) == (there, int(gone.sum()))
            assert row["length"] == there - int(gone.sum()) * shortens


def test_a_batch_is_its_texts_one_by_one():
    together = rows_of(InDistribution().run(batch_of("bert", rankings=LEVELS)))
    for text in (0, 3):
        full = batch_of("bert", rankings=LEVELS)
        there = full.inputs["attention_mask"][text].bool()
        inputs = {name: value[text : text + 1, there] for name, value in full.inputs.items()}
        for key, row in rows_of(
            InDistribution().run(batch_of("bert", rankings=LEVELS, inputs=inputs, numbers=[text]))
        ).items():
            mine = together[key]
            assert (row["removed"], row["length"]) == (mine["removed"], mine["length"])
            if row["vector"] is not None:
                np.testing.assert_allclose(row["vector"], mine["vector"], atol=1e-6)


def test_only_texts_of_the_sample_are_read():
    batch = batch_of("bert", rankings=LEVELS, sample=frozenset([2, 5]))
    assert {key[0] for key in rows_of(InDistribution().run(batch))} == {2, 5}


def test_p_values_are_adjusted_ranking_by_ranking_and_need_twenty_texts():
    draws = np.random.default_rng(0)
    about = {"ranking_level": "input", "erase_level": "input", "items": 9, "removed": 2, "length": 7}
    names = {None: 0.0, "attention": 0.0, "random": 8.0}
    rows = [
        {"text_id": text, "ranking": name, "vector": draws.normal(size=12) + shift, **about}
        for text in range(60)
        for name, shift in names.items()
    ]
    table = pd.DataFrame(rows).astype({"ranking": object})
    table.loc[table["ranking"] == "attention", "length"] = 6
    table.loc[(table["ranking"] == "attention") & (table["text_id"] < 5), ["vector", "length"]] = None
    found = p_value_table([table], combination="fisher", nearest=None).to_pandas()
    for name, shift in names.items():
        mine = found[found["ranking"].isna() if name is None else found["ranking"] == name]
        if name is None:
            assert sorted(mine["p"].round(9)) == [round(rank / 60, 9) for rank in range(1, 61)]  # each once
            continue
        np.testing.assert_allclose(mine["p_adjusted"], benjamini_hochberg(mine["p"]))
        assert ((mine["p_adjusted"] <= 0.05).mean() > 0.9) == (shift > 0)
        assert mine["p"].isna().sum() == (5 if name == "attention" else 0)
        assert mine["shorter"].dropna().eq(name == "attention").all()
    without = p_value_table([table[table["ranking"] != "random"]], combination="fisher", nearest=None).to_pandas()
    pd.testing.assert_frame_equal(without, found[found["ranking"] != "random"].reset_index(drop=True))
    for texts, alpha in ((19, 0.05), (60, 0.01)):
        few = table[table["text_id"] < texts]
        assert p_value_table([few], combination="fisher", nearest=None, alpha=alpha).to_pandas()["p"].isna().all()


def test_the_forecast_has_the_erasure_that_it_does_itself():
    config = batch_of("bert", rankings=LEVELS).config
    alone, both = (
        TextCost.of(config, resolve_tests(names)).work([20, 30])
        for names in (["in_distribution"], ["erasure", "in_distribution"])
    )
    assert alone == both > 1.5 * TextCost.of(config, resolve_tests(["single_weight"])).work([20, 30])


def test_planted_holes_that_the_model_does_not_know_are_found():
    """A mask token that no text holds, and whose vector is like no other, against hiding by the attention mask."""
    model, tokenizer = tiny_model("bert", dtype=torch.float64), tokenizers.word_piece()
    with torch.no_grad():
        model.bert.embeddings.LayerNorm.weight.copy_(
            torch.linspace(0.5, 1.5, len(model.bert.embeddings.LayerNorm.weight))
        )
        vectors = model.get_input_embeddings().weight
        vectors[tokenizer.mask_token_id] = 30 * vectors[tokenizer.mask_token_id].sign() * vectors.std()
    shares = {}
    for hide in ("attention_mask", "mask_token"):
        result = af.Evaluator(model, tokenizer).compute(
            commands.texts(60),
            tests=["in_distribution"],
            rankings=["attention"],
            level="input",
            hide=hide,
            n_resamples=20,
            quiet=True,
        )
        summary = result.summary().set_index(["figure", "ranking"])["value"]
        shares[hide] = summary["unusual", "random"]
        if hide == "mask_token":
            assert result.verdict.parts["in_distribution"]
    assert shares["mask_token"] > shares["attention_mask"] + 0.3


def test_p_values_do_not_depend_on_the_batch_where_texts_are_equal():
    """The last bits of equal texts' vectors differ between batches; their ranks must not."""
    evaluator = af.Evaluator(tiny_model("bert"), tokenizers.word_piece())
    texts = [*commands.texts(24), *commands.texts(16)]
    options = {"tests": ["in_distribution"], "rankings": ["attention"], "level": "input", "quiet": True}
    tables = {}
    for size in (1, 16):
        results = evaluator.compute(texts, batch_size=size, n_resamples=20, **options)
        keys = ["text_id", "ranking", "ranking_level"]
        tables[size] = results.table("in_distribution_p").sort_values(keys).reset_index(drop=True)
    assert tables[1]["length"].notna().sum() > len(texts) + 20
    pd.testing.assert_frame_equal(tables[1], tables[16], rtol=1e-9)


def test_bad_options_are_refused():
    for options in ({"combination": "max"}, {"nearest": 0}, {"nearest": 9}, {"alpha": 1.5}, {"every_ranking": 1}):
        with pytest.raises(InputError, match=next(iter(options))):
            InDistribution(**options)
