"""Agreement text by text: outlines are the shares of the texts of each class, and all of it can be read."""

import numpy as np
import pandas as pd
import pytest

from attnfaith.errors import InputError
from attnfaith.plots import agreement_distributions, taus
from tests.helpers.reading_figures import texts_of, unreadable

MEASURES = [("input", "gradient_attention_fixed"), ("input", "leave_one_out")]


def table(texts=200, levels=("input",), classes=2, seed=0, others=(*MEASURES, ("input", "random"))):
    """Taus made up, text by text."""
    draw, tables = np.random.default_rng(seed), []
    for level in levels:
        for index, (other_level, other) in enumerate(others):
            tau = np.clip(draw.normal(0.35 - 0.1 * index, 0.25, texts), -1, 1)
            tau[: texts // 20] = np.nan
            rows = {"text_id": range(texts), "level": level, "ranking_level": level, "ranking": "attention"}
            rows |= {"other_level": other_level, "other": other, "tau": tau, "p": draw.random(texts)}
            tables.append(pd.DataFrame(rows | {"prediction": draw.integers(0, classes, texts)}))
    return pd.concat(tables, ignore_index=True)


@pytest.mark.parametrize("classes", [1, 2, 4])
def test_outlines_are_shares_of_each_class(classes):
    made = table(classes=classes)
    figure = agreement_distributions(made, ["bad", "good", "fair", "poor"])
    assert len(figure.axes) == 2
    for axis, (_, other) in zip(figure.axes, MEASURES, strict=True):
        rows = made[(made.other == other) & made.tau.notna()]
        outlines = [patch for patch in axis.patches if patch.get_label() and not patch.get_label().startswith("_")]
        assert len(outlines) == classes
        for index, outline in enumerate(outlines):
            of_class = rows[rows.prediction == index].tau
            values, edges, _ = outline.get_data()
            assert len(values) == 20
            assert values.sum() == pytest.approx(1)
            assert outline.get_label() == f"{['bad', 'good', 'fair', 'poor'][index]} ({of_class.mean():.2f})".replace(
                "-", "−"
            )
            assert values[10] == pytest.approx(((of_class >= 0) & (of_class < 0.1)).mean())
            assert (edges[0], edges[-1]) == (-1, 1)
        assert axis.get_title(loc="left").endswith(f"mean τ {rows.tau.mean():.2f}")
        assert any("190 texts, undefined on 10 texts" in text for text in texts_of(axis))
    assert unreadable(figure) == []


def test_ends_and_edges_are_in_a_bin():
    axis = taus(pd.DataFrame({"tau": [-1.0, 0.3, 0.1 + 0.2, 1.0]}))
    values, _, _ = axis.patches[-1].get_data()
    assert values.tolist() == [0.25, *[0] * 12, 0.5, *[0] * 5, 0.25]


@pytest.mark.parametrize(("kind", "classes"), [("multiclass", 9), ("multilabel", 2), ("regression", 2)])
def test_many_classes_and_other_decisions_are_one_outline(kind, classes):
    made = table(classes=classes)
    if kind != "multiclass":
        made["prediction"] = [[0, 1]] * len(made) if kind == "multilabel" else made.tau
    figure = agreement_distributions(made, kind=kind)
    assert all(len(axis.patches) == 2 and axis.get_legend() is None for axis in figure.axes)


def test_other_rankings_can_be_chosen_and_levels_are_named():
    both = table(levels=("attention", "input"))
    figure = agreement_distributions(both, others=["random"])
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert [title.split(":")[0] for title in titles] == ["random order", "random order"]
    for axis, where in zip(figure.axes, ("the final attention, 190 texts", "the input, 190 texts"), strict=True):
        assert any(text.startswith(where) for text in texts_of(axis))
    without = table(others=[("attention", "gradient"), ("attention", "lrp"), ("attention", "random")])
    assert len(agreement_distributions(without).axes) == 3
    assert unreadable(agreement_distributions(without)) == []
    assert any(
        "none of these" in text.replace("\n", " ") for text in texts_of(agreement_distributions(without, others=["x"]))
    )


def test_user_names_are_drawn_as_plain_text():
    made = table(others=[("yours", "$cost$_of_the_second_annotator_here")])
    figure = agreement_distributions(made, ["$a$", "$a$"])
    assert unreadable(figure) == []
    assert any("$a$ (0)" in text for text in texts_of(figure))


def test_nothing_to_draw_says_so():
    assert any("Nothing to draw" in text for text in texts_of(taus(pd.DataFrame({"tau": [np.nan]}))))
    assert any("Nothing to draw" in text for text in texts_of(agreement_distributions(table().iloc[:0])))
    with pytest.raises(InputError, match="has no tau"):
        taus(pd.DataFrame({"p": [0.1]}))
