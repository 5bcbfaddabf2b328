"""Parquet files as rows in parts: each row group is a part, and its metadata are public."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from glob import escape, glob
from itertools import groupby
from typing import Any

import numpy as np
from scipy import sparse

from skdp.data.containers import RawBlock, made_up_frame, paths_of, with_text
from skdp.exceptions import shortened

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow.parquet import FileMetaData, ParquetFile, read_metadata
except ImportError:
    raise ImportError('RowBlocks.from_parquet needs pyarrow: pip install "skdp[parquet]"') from None

# Number of columns that are decoded at a time: decoded columns take memory besides their copy.
_COLUMNS = 16  # not studied
# Number of rows of `_COLUMNS` columns that are copied at a time.
_ROWS = 4096  # not studied
# Number of files whose metadata are cached: reading those of 50 groups of 200 columns takes 20 ms.
_FILES = 16  # not studied
_TEXTS = (pa.types.is_string, pa.types.is_large_string)
_NUMBERS = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean)
# Accepted types, as errors name them: first the types of features, then the types of targets.
_TAKEN = "numbers or booleans", "numbers, booleans or strings"


def row_groups(
    paths: Any,
    columns: Sequence[str] | None,
    y: str | None,
    categories: Mapping[str, Sequence[str]] | None,
    *,
    sparse_output: bool = True,
) -> tuple[Any, ...]:
    """Return arguments of `RowParts` for the row groups of files: see `RowBlocks.from_parquet`.

    The arguments are functions that load row groups and can be pickled, and public facts of the
    rows.
    """
    paths = [file for path in paths_of(paths) for file in _files_of(path)]
    columns = None if columns is None else _checked_names(columns, "columns")
    if y in (columns or ()):
        raise ValueError(f"columns must not have y={y!r}: leave it out of columns.")
    lists = {
        name: _checked_names(values, f"categories[{name!r}]")
        for name, values in (categories or {}).items()
    }
    first: dict[str, Any] = {}
    groups, lengths = [], []
    for path in paths:
        found = _metadata(*_version_of(path))
        types = _types(path, found.schema.to_arrow_schema(), columns, y, lists)
        first = first or types
        for name in {**first, **types}:
            one, two = types.get(name, "missing"), first.get(name, "missing")
            if one != two:
                raise ValueError(f"{path}: column {name!r} is {one}, but {two} in {paths[0]}.")
        for number in range(found.num_row_groups):
            groups.append((path, number))
            lengths.append(found.row_group(number).num_rows)
    names = [name for name in first if name != y]
    texts = {name: name not in lists and _is_text(first[name]) for name in names}
    numbers = [name for name in names if not (texts[name] or name in lists)]
    is_single = not all(texts.values()) and all(pa.types.is_float32(first[one]) for one in numbers)
    dtype = np.dtype(np.float32 if is_single else np.float64)
    # Columns for categories are named as by `OneHotEncoder`.
    made = list[str]()
    for name in names:
        made += [f"{name}_{value}" for value in lists[name]] if name in lists else [name]
    load: Any = partial(_encoded_rows, lists=lists, is_sparse=sparse_output) if lists else _rows
    like = None
    if any(texts.values()):
        if lists:
            raise ValueError("categories must have all columns of texts, or none.")
        load, like = partial(_frame, texts=texts), made_up_frame(texts, dtype)
    rows = [partial(load, *group, names, dtype) for group in groups]
    targets = None if y is None else [partial(_targets, *group, y) for group in groups]
    return rows, lengths, len(made), dtype, targets, made, like


def _files_of(path: str) -> list[str]:
    """Return the files of a path, folder or pattern, in the order of their names."""
    is_folder = os.path.isdir(path)
    if not is_folder and (os.path.exists(path) or not {*"*?["} & {*path}):
        return [path]
    found = sorted(glob(os.path.join(escape(path), "*.parquet") if is_folder else path))
    if not found:
        raise ValueError(f"{path} has no Parquet files: pass files, a folder, or a pattern.")
    return found


def _checked_names(names: Any, name: str) -> list[str]:
    """Return a list of names; refuse values that are no texts, and texts that occur twice."""
    is_list = hasattr(names, "__iter__") and not isinstance(names, str)
    found = list(names) if is_list else []
    are_texts = all(isinstance(one, str) for one in found)
    if not found or not are_texts or len({*found}) < len(found):
        raise ValueError(f"{name} must be a list of strings, at least one and each once.")
    return found


def _types(
    path: str,
    schema: Any,
    columns: list[str] | None,
    y: str | None,
    lists: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """Return the types of features and targets; refuse missing columns, and other types."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    names = columns or [name for name in schema.names if name != y and name not in index]
    if unused := [name for name in lists if name not in names]:
        raise ValueError(f"categories has {unused[0]!r}, which is no feature of {path}.")
    counts, types = Counter(schema.names), {}
    # The name y is checked first: if it is misspelled, the column of labels counts as a feature,
    # and an error about this feature would mislead.
    for name in [*([] if y is None else [y]), *names]:
        if counts[name] != 1:
            times = "two columns" if counts[name] else "no column"
            raise ValueError(f"{path} has {times} {name!r}; it has {shortened(schema.names)}.")
        kind = types[name] = schema.field(name).type
        takes_texts = name == y or name in lists or columns is not None
        if takes_texts and pa.types.is_dictionary(kind):
            # The codes of categories may differ between files, so only the type of texts counts.
            kind = types[name] = kind.value_type
        accepted = (*_NUMBERS * (name not in lists), *_TEXTS * takes_texts)
        if not any(is_taken(kind) for is_taken in accepted):
            taken = "strings" if name in lists else _TAKEN[name == y]
            mend = (
                f"For strings, pass y={name!r} of labels, and of features "
                f"categories={{{name!r}: [...]}}, or columns=[{name!r}, ...] to encode them later."
            )
            if pa.types.is_temporal(kind):
                mend = "Write dates and times as numbers, such as days since a public day."
            raise ValueError(
                f"{path}: column {name!r} is {kind}, but must be {taken}: convert it in the file, "
                f"or name other columns. {mend}"
            )
    if not names:
        raise ValueError(f"{path} has no columns of features.")
    return types


def _is_text(kind: Any) -> bool:
    return any(is_one(kind) for is_one in _TEXTS)


def _version_of(path: str) -> tuple[str, int, int]:
    """Return a path with the time and size of its file, so that `_metadata` notices a new file."""
    status = os.stat(path)
    return path, status.st_mtime_ns, status.st_size


@lru_cache(maxsize=_FILES)
def _metadata(path: str, *_: int) -> FileMetaData:
    """Read the metadata of a file; replace the texts of errors, which may quote metadata."""
    text = f"{path} is no file of Parquet that can be read. pandas.DataFrame.to_parquet writes one."
    return with_text(text, lambda: read_metadata(path))


def _opened(path: str) -> ParquetFile:
    return ParquetFile(path, metadata=_metadata(*_version_of(path)))


def _rows(path: str, group: int, names: list[str], dtype: np.dtype) -> np.ndarray:
    """Load columns of numbers into an array, some columns at a time."""
    with _opened(path) as file:
        rows = np.empty((file.metadata.row_group(group).num_rows, len(names)), dtype)
        for first in range(0, len(names), _COLUMNS):
            table = file.read_row_group(group, names[first : first + _COLUMNS], use_threads=False)
            columns = [
                # Missing values become NaN.
                (one.cast(pa.uint8()) if pa.types.is_boolean(one.type) else one).to_numpy()
                for one in map(table.column, names[first : first + _COLUMNS])
            ]
            # Rows are copied in groups of `_ROWS`, which fit into cache with all these columns.
            for start in range(0, len(rows), _ROWS):
                for place, column in enumerate(columns, first):
                    rows[start : start + _ROWS, place] = column[start : start + _ROWS]
    return rows


def _frame(
    path: str, group: int, names: list[str], dtype: np.dtype, texts: Mapping[str, bool]
) -> Any:
    """Load rows as a data frame, in which texts are objects."""
    import pandas as pd

    columns = {
        name: _texts(path, group, name).to_pandas().to_numpy(object, na_value=np.nan)
        if texts[name]
        else _rows(path, group, [name], dtype)[:, 0]
        for name in names
    }
    return pd.DataFrame(columns)


def _encoded_rows(
    path: str,
    group: int,
    names: list[str],
    dtype: np.dtype,
    lists: Mapping[str, list[str]],
    *,
    is_sparse: bool,
) -> RawBlock:
    """Load rows, with a column of 0 and 1 for each category; other values have 0 in all of them."""
    parts: list[Any] = []
    for is_text, run in groupby(names, lists.__contains__):
        if is_text:
            parts += [_one_hot(_texts(path, group, name), lists[name], dtype) for name in run]
        else:
            parts.append(_rows(path, group, list(run), dtype))
    if not is_sparse:
        return np.hstack([one.toarray() if sparse.issparse(one) else one for one in parts])
    return sparse.csr_array(sparse.hstack([*map(sparse.csr_array, parts)], format="csr"))


def _one_hot(column: Any, values: list[str], dtype: np.dtype) -> sparse.csr_array:
    """Return a sparse column of 0 and 1 for each of `values`; rows with other values have no 1."""
    places = pc.index_in(column, value_set=pa.array(values, column.type)).fill_null(-1)
    codes = np.asarray(places.to_numpy())
    is_known = codes >= 0
    ends = np.concatenate([[0], np.cumsum(is_known)])
    ones = np.ones(ends[-1], dtype)
    return sparse.csr_array((ones, codes[is_known], ends), shape=(len(codes), len(values)))


def _texts(path: str, group: int, name: str) -> Any:
    """Load a column; convert categories to texts."""
    with _opened(path) as file:
        column = file.read_row_group(group, [name], use_threads=False).column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column


def _targets(path: str, group: int, name: str) -> np.ndarray:
    return np.asarray(_texts(path, group, name).to_numpy())
