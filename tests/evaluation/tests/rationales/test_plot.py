"""What the top of each ranking carries, and how people agree: drawn as the table has it, and all of it can be read."""

import numpy as np
import pandas as pd
import pytest

from attnfaith.errors import InputError
from attnfaith.plots import carried, plausibility_figure, rationales_figure
from attnfaith.plots.labels import labels_for
from tests.helpers import made_up_tables
from tests.helpers.reading_figures import smallest_type, texts_of, unreadable

LONG = {"lrp": "scores_of_the_second_annotator_after_adjudication", "gradient": "cost: $5 or \\frac$"}
SHARES = (1, 5, 10, 20, 50)


def summary(levels=("attention", "input"), *, marked=True, shares=SHARES):
    """Figures like a run's: who flips early loses more without the top."""
    rows = []
    for level in levels:
        row = {"test": "rationales", "erase_level": level, "slice": "all", "other": "", "texts": 150, "note": ""}
        for (ranking_level, ranking), median in made_up_tables.LEVELS[level][0].items():
            line = row | {"ranking_level": ranking_level, "ranking": ranking}
            worth = (1 - median) ** 2
            for share in shares:
                way = (share / 50) ** 0.5
                rows.append(line | spread(f"comprehensiveness_at_{share}%", 0.7 * worth * way, 0.03))
                rows.append(line | spread(f"sufficiency_at_{share}%", 0.5 - 0.5 * worth - 0.2 * way, 0.04))
            for index, figure in enumerate(("auprc", "token_f1", "iou_f1")) if marked else ():
                rows.append(line | spread(figure, (0.25 + 0.4 * worth) / (1 + index), 0.05))
    return pd.DataFrame(rows)


def spread(figure, value, half):
    return {"figure": figure, "value": value, "low": value - half, "high": value + half}


@pytest.mark.parametrize("measure", ["comprehensiveness", "sufficiency"])
def test_curves_are_those_of_the_table(measure):
    table = summary().sample(frac=1, random_state=0)
    axis = carried(table, measure=measure, erase_level="input", unit="words")
    keys = list(made_up_tables.LEVELS["input"][0])
    lines = {line.get_label(): line for line in axis.lines if len(line.get_xdata()) == len(SHARES)}
    assert lines.keys() == set(labels_for(keys).values())
    for key, label in labels_for(keys).items():
        selected = table[(table.erase_level == "input") & (table.ranking_level == key[0]) & (table.ranking == key[1])]
        expected = [selected[selected.figure == f"{measure}_at_{share}%"].value.item() for share in SHARES]
        assert lines[label].get_ydata().tolist() == expected
        assert lines[label].get_xdata().tolist() == pytest.approx([share / 100 for share in SHARES])
    assert len(axis.collections) == len(keys)  # a band each
    assert [label.get_text() for label in axis.get_xticklabels()] == ["1", "5", "10", "20", "50"]


def test_bands_are_the_intervals():
    table = summary(("attention",))
    table = table[table.ranking == "lrp"]
    (band,) = carried(table).collections
    corners = band.get_paths()[0].vertices
    selected = table[table.figure == "comprehensiveness_at_20%"]
    there = corners[np.isclose(corners[:, 0], 0.2), 1]
    assert (there.min(), there.max()) == pytest.approx((selected.low.item(), selected.high.item()))


def test_titles_say_what_was_done_and_which_way_is_good():
    written = texts_of(carried(summary(), erase_level="input", unit="words"))
    assert "Without the top words" in written
    told = "erased from the input, 150 texts\nhigher is better; dashed: rankings of the input level"
    assert any(text.startswith(told) for text in written)
    assert "words erased (% of the text)" in written
    assert "fall in the explained probability (mean)" in written
    written = texts_of(carried(summary(("attention",)), measure="sufficiency", kind="regression"))
    assert "With the top tokens alone" in written
    assert any(text.startswith("erased from the final attention, 150 texts\nlower is better") for text in written)
    assert "change of the value (mean)" in written


def test_the_highlighted_stand_out():
    axis = carried(summary(("attention",)), highlight=["lrp"])
    widths = {line.get_label(): line.get_linewidth() for line in axis.lines if len(line.get_xdata()) == len(SHARES)}
    assert [name for name, width in widths.items() if width > 1] == ["LRP"]


def test_panels_of_a_level_have_one_scale():
    figure = rationales_figure(summary(), highlight=[])
    limits = [axis.get_ylim() for axis in figure.axes]
    assert limits[0] == limits[1]
    assert limits[2] == limits[3]
    assert limits[0] != limits[2]
    many = {axis.get_ylim() for axis in rationales_figure(summary()).axes}
    assert many == set(limits)


def test_agreement_is_that_of_the_table_in_one_order():
    table = summary()
    figure = plausibility_figure(table.sample(frac=1, random_state=0))
    assert len(figure.axes) == 6
    for row, level in enumerate(("attention", "input")):
        first, *rest = figure.axes[3 * row : 3 * row + 3]
        expected = table[(table.erase_level == level) & (table.figure == "auprc")].sort_values("value", ascending=False)
        labels = labels_for(list(zip(expected.ranking_level, expected.ranking, strict=True)))
        names = [label.get_text().replace(" control", "") for label in first.get_yticklabels()]
        assert names == list(labels.values())
        assert not any(label.get_text() for axis in rest for label in axis.get_yticklabels())
        for axis, name in zip((first, *rest), ("auprc", "token_f1", "iou_f1"), strict=True):
            selected = table[(table.erase_level == level) & (table.figure == name)]
            values = selected.set_index(["ranking_level", "ranking"]).value
            drawn = {line.get_ydata()[0]: line.get_xdata()[0] for line in axis.lines if len(line.get_xdata()) == 1}
            for index, key in enumerate(labels):
                assert drawn[index] == values[key]


FIGURES = {
    "both levels": lambda: rationales_figure(summary()),
    "attention": lambda: rationales_figure(summary(("attention",))),
    "long names": lambda: rationales_figure(summary(("attention",)).replace({"ranking": LONG})),
    "one share": lambda: rationales_figure(summary(("attention",), shares=(10,))),
    "two near shares": lambda: rationales_figure(summary(("attention",), shares=(10, 25, 50))),
    "nothing": lambda: rationales_figure(summary().head(0)),
    "agreement": lambda: plausibility_figure(summary()),
    "agreement, long names": lambda: plausibility_figure(summary(("attention",)).replace({"ranking": LONG})),
    "no marks": lambda: plausibility_figure(summary(marked=False)),
}


@pytest.mark.parametrize("name", list(FIGURES))
def test_all_can_be_read(name, tmp_path):
    figure = FIGURES[name]()
    assert unreadable(figure) == []
    assert smallest_type(figure) >= 6
    figure.savefig(tmp_path / "figure.pdf")


def test_missing_values_have_a_note():
    assert "Nothing to draw" in " ".join(texts_of(rationales_figure(summary().head(0))))
    assert "people marked nothing" in " ".join(texts_of(plausibility_figure(summary(marked=False))))
    bare = summary(("attention",))
    assert "Nothing to draw" in " ".join(texts_of(carried(bare[bare.figure == "auprc"])))
    unknown = summary(("attention",)).assign(value=np.nan)
    assert "Nothing to draw" in " ".join(texts_of(carried(unknown)))


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(InputError, match="comprehensiveness, sufficiency; got 'f1'"):
        carried(summary(("attention",)), measure="f1")
    with pytest.raises(InputError, match="2 erase levels"):
        carried(summary())
    with pytest.raises(InputError, match="no value"):
        rationales_figure(summary().drop(columns="value"))
    with pytest.raises(InputError, match="highlight names"):
        carried(summary(("attention",)), highlight=["shap"])


def test_a_file_is_written_to_the_given_path(tmp_path):
    for draw in (rationales_figure, plausibility_figure):
        draw(summary(("attention",)), path=tmp_path / "figure.png")
        assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.parametrize("measure", ["comprehensiveness", "sufficiency"])
def test_a_line_marks_no_drop_at_all(measure):
    axis = carried(summary(), measure=measure, erase_level="input", unit="words")
    across = [line for line in axis.lines if list(line.get_xdata()) == [0, 1]]
    assert [set(line.get_ydata()) for line in across] == [{0}]
