"""Re-initialised layers: every figure is where it belongs, and all of it can be read."""

import numpy as np
import pandas as pd
import pytest

from attnfaith.errors import InputError
from attnfaith.evaluation.tests.sanity.plot import TICKS, TRAINED, layer_names
from attnfaith.evaluation.tests.sanity.plot import sanity as plot
from attnfaith.evaluation.tests.sanity.summary import RANDOM_LABELS
from attnfaith.plots import sanity_figure
from attnfaith.plots.style import COLUMN, PAGE
from tests.helpers.reading_figures import smallest_type, texts_of, unreadable

FLAN = ["classifier", "attention", "encoder", "embeddings"]
BERT = ["classifier", "bert.pooler", *(f"bert.encoder.layer.{n}" for n in reversed(range(12))), "bert.embeddings"]
LLAMA = ["score", "model.norm", *(f"model.layers.{n}" for n in reversed(range(32))), "model.embed_tokens"]
T5 = [
    "classification_head",
    *(f"transformer.{side}.block.{n}" for side in ("decoder", "encoder") for n in reversed(range(6))),
    "transformer.shared",
]
FEW = [("attention", name) for name in ("random", "attention", "gradient", "gradient_x_attention", "lrp", "occlusion")]
MANY = [
    *FEW,
    *(
        ("input", name)
        for name in ("random", "gradient", "gradient_x_input", "lrp", "rollout", "occlusion", "omission")
    ),
]
FAST = {"attention": 2.5, "rollout": 0.4, "gradient": 1.2}


def made(layers=tuple(FLAN), keys=tuple(FEW), *, labels=False, measure="spearman", undefined=(), seed=0):
    """Curves that fall, each at its pace; a random order is at 0 at once."""
    draw, rows = np.random.default_rng(seed), []
    steps = [(f"{depth}/{layer}", depth / len(layers)) for depth, layer in enumerate(layers, start=1)]
    for level, ranking in keys:
        pace = FAST.get(ranking, 5.0) + draw.random()
        for other, share in [*steps, *([(RANDOM_LABELS, 0.6)] if labels else [])]:
            value = (np.exp(-pace * share) if ranking != "random" else 0.0) + 0.04 * draw.normal()
            value = np.nan if ranking in undefined else min(value, 1.0)
            row = {"ranking_level": level, "ranking": ranking, "other": other, "value": value, "texts": 150}
            rows.append(row | {"low": value - 0.06, "high": min(value + 0.06, 1.0)})
    return pd.DataFrame(rows).assign(test="sanity", erase_level="", slice="all", figure=measure)


def ticks(axis):
    return [label.get_text() for label in axis.get_xticklabels()]


def curves(axis, count):
    return [line for line in axis.lines if len(line.get_xdata()) == count + 1]


def test_a_curve_begins_at_one_and_goes_through_its_figures():
    table = made(FLAN, FEW)
    axis = plot(table.sample(frac=1, random_state=3))
    drawn = curves(axis, len(FLAN))
    assert len(drawn) == len(FEW)
    for key in FEW:
        mine = table[(table.ranking_level == key[0]) & (table.ranking == key[1])]
        mine = mine.assign(depth=mine.other.str.split("/").str[0].astype(int)).sort_values("depth")
        expected = [1.0, *mine.value]
        assert any(np.allclose(line.get_ydata(), expected) for line in drawn), key
    assert all(line.get_xdata().tolist() == [0, 1, 2, 3, 4] for line in drawn)
    assert ticks(axis) == [TRAINED, *FLAN]
    assert axis.get_ylim()[1] == 1


def test_the_random_order_is_grey_and_dotted_and_rankings_of_the_input_are_dashed():
    axis = plot(made(FLAN, MANY))
    styles = [(line.get_color(), line.get_linestyle()) for line in curves(axis, len(FLAN))]
    assert styles.count(("#707070", ":")) + styles.count(("#707070", "--")) == 2
    assert "dashed: rankings of the input level" in " ".join(texts_of(axis))
    assert "dashed" not in " ".join(texts_of(plot(made(FLAN, FEW))))


def test_random_labels_stand_apart_as_points():
    table = made(FLAN, FEW, labels=True)
    axis = plot(table)
    assert ticks(axis) == [TRAINED, *FLAN, "random labels"]
    assert len(curves(axis, len(FLAN))) == len(FEW)
    points = [line for line in axis.lines if len(line.get_xdata()) == 1]
    expected = sorted(table[table.other == RANDOM_LABELS].value)
    np.testing.assert_allclose(sorted(float(line.get_ydata()[0]) for line in points), expected)
    assert {float(line.get_xdata()[0]) for line in points} == {len(FLAN) + 1.5}


def test_names_of_layers_are_as_short_as_they_can_be():
    assert layer_names(BERT)[:4] == ["classifier", "pooler", "layer.11", "layer.10"]
    assert layer_names(T5)[1] == "decoder.block.5"
    assert layer_names(["a.0", "b.0"]) == ["a.0", "b.0"]
    assert layer_names(["0", "1"]) == ["0", "1"]
    assert max(map(len, layer_names(["x" * 60, "y" * 60]))) <= 22
    for layers in (FLAN, BERT, LLAMA, T5):
        assert len(set(layer_names(layers))) == len(layers)


def test_of_very_many_layers_some_are_named_and_the_last_is():
    axis = plot(made(LLAMA, FEW))
    assert len(ticks(axis)) <= TICKS + 1
    assert ticks(axis)[-1] == "embed_tokens"
    assert len(curves(axis, len(LLAMA))) == len(FEW)


def test_what_is_undefined_is_named_and_an_empty_figure_says_so():
    axis = plot(made(FLAN, FEW, undefined=("attention",)))
    assert "undefined: attention" in " ".join(texts_of(axis))
    assert len(curves(axis, len(FLAN))) == len(FEW) - 1
    for table in (made(FLAN, FEW, undefined=tuple(name for _, name in FEW)), made().iloc[:0]):
        axis = plot(table)
        assert "Nothing to draw" in " ".join(texts_of(axis)) or "No curve to draw" in " ".join(texts_of(axis))


def test_what_is_not_there_is_refused():
    with pytest.raises(InputError, match="measure to be one of"):
        plot(made(), measure="pearson")
    with pytest.raises(InputError, match="highlight names"):
        plot(made(), highlight=["shap"])
    with pytest.raises(InputError, match="has no other"):
        plot(made().drop(columns="other"))


SHAPES = {
    "FLAN": (FLAN, FEW),
    "FLAN, one ranking": (FLAN, FEW[1:2]),
    "BERT": (BERT, FEW),
    "BERT, both levels": (BERT, MANY),
    "Llama": (LLAMA, MANY),
    "T5": (T5, FEW),
    "long names": (
        ["x" * 60, "bert.encoder.$5.\\frac$"],
        [("attention", "attention"), ("yours", "a_very_long_name" * 4)],
    ),
    "one layer": (FLAN[:1], FEW),
}


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_it_can_be_read(name, labels, tmp_path):
    layers, keys = SHAPES[name]
    figure = sanity_figure(made(layers, keys, labels=labels), path=tmp_path / "figure.png")
    assert unreadable(figure) == []
    assert smallest_type(figure) >= 5
    assert figure.get_size_inches()[0] == pytest.approx(PAGE if len(layers) > 8 else COLUMN)
    assert (tmp_path / "figure.png").stat().st_size > 1000


@pytest.mark.parametrize("measure", ["spearman", "spearman_absolute", "tau"])
def test_a_panel_of_a_column_can_be_read_whatever_the_measure(measure):
    axis = plot(made(FLAN, MANY, measure=measure), measure=measure)
    assert unreadable(axis.figure) == []
    assert axis.get_ylabel().startswith("Kendall's" if measure == "tau" else "Spearman's")


def test_the_table_is_as_it_was():
    table = made(BERT, MANY, labels=True)
    before = table.copy()
    sanity_figure(table)
    pd.testing.assert_frame_equal(table, before)
