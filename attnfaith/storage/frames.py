"""Convert stored tables to pandas."""

from __future__ import annotations

import math

import pandas as pd
import pyarrow as pa

try:
    _TEXT = pd.StringDtype(na_value=math.nan)
except TypeError:  # pandas 2.2 has the same type under this name
    _TEXT = pd.StringDtype("pyarrow_numpy")
_STRINGS = {pa.string(): _TEXT}
_NULLABLE = {**_STRINGS, pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Convert a table to pandas. Its schema alone gives the types of the columns, whether values are missing or not.

    Example:
        >>> schema = pa.schema([pa.field("flips", pa.int64()), pa.field("items", pa.int64(), nullable=False)])
        >>> [str(kind) for kind in to_pandas(pa.table({"flips": [2], "items": [5]}, schema=schema)).dtypes]
        ['Int64', 'int64']
    """
    columns = {
        field.name: table[field.name].to_pandas(types_mapper=(_NULLABLE if field.nullable else _STRINGS).get)
        for field in table.schema
    }
    return pd.DataFrame(columns, columns=table.column_names)
