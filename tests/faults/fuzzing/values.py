"""Made-up texts, numbers, labels and values of any type."""

from __future__ import annotations

import math

import pandas as pd
from hypothesis import strategies as st

from tests.helpers import commands

_letters = st.characters(codec=None, categories=None)
_hostile = st.sampled_from(
    [
        "",
        " ",
        "\n",
        "\x00",
        "\ud800",
        "\x1b[31m",
        "\u202e",
        "\u200b",
        "\ufeff",
        "é",
        "e\u0301",
        "👍🏽",
        "ﷺ",
        "<b>",
        "[MASK]",
        "[PAD]",
        "[UNK]",
        "[EOS]",
        "NA",
        "nan",
        "None",
        "null",
        "1e400",
        "-0",
        "w" * 3000,
        "a " * 300,
        "\r\n",
        "\u2028",
        "#",
    ]
)
_word = st.one_of(st.sampled_from(commands.WORDS), st.text(_letters, max_size=6), _hostile)
any_text = st.one_of(
    st.lists(_word, max_size=12).map(" ".join), st.text(_letters, max_size=40), st.lists(_word, max_size=6).map("".join)
)
any_number = st.one_of(
    st.integers(-3, 5),
    st.sampled_from([2**31, -(2**63), 10**30, 0.5, -0.0, 1e308, math.inf, -math.inf, math.nan]),
    st.floats(),
)
plain_value = st.one_of(st.none(), st.booleans(), any_number, any_text)
odd_value = st.recursive(
    st.one_of(
        plain_value,
        st.binary(max_size=8),
        st.datetimes(),
        st.dates(),
        st.decimals(),
        st.complex_numbers(),
        st.just(object()),
        st.just(...),
        st.just(int),
        st.fractions(),
        st.uuids(),
        st.just(pd.NaT),
        st.just(pd.NA),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=3), inner, max_size=2),
        st.tuples(inner),
        st.tuples(inner, inner),
    ),
    max_leaves=4,
)
any_label = st.one_of(st.sampled_from([0, 1, "0", "1", "good", "bad", 1.0, True]), odd_value)
