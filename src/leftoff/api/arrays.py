"""numpy's and pandas' values, taken apart into what a record can hold and put together again.

An array of numbers is its bytes with type and shape; one of objects is a list of its entries. A large one becomes a
file of the store, as any large value does. Nothing is pickled.
"""

from __future__ import annotations

from typing import Any

_SCALARS = {"Timestamp": "pandas.Timestamp", "NaTType": "pandas.Timestamp", "Timedelta": "pandas.Timedelta"}
_PANDAS = frozenset(("DataFrame", "Series", "NAType", "Period", *_SCALARS)) | {
    f"{kind}Index" for kind in ("", "Range", "Datetime", "Timedelta", "Period", "Categorical", "Multi")
}
SIMPLE = "biufcmM"  # kinds of numpy types whose bytes say all: truth, numbers, times


def supports(kind: type) -> bool:
    """Whether values of a class of numpy or pandas can be kept."""
    top, name = kind.__module__.partition(".")[0], kind.__name__
    if top == "pandas":
        return name in _PANDAS
    import numpy

    return kind is numpy.ndarray or issubclass(kind, numpy.generic)


def take(value: Any) -> tuple[str, Any] | None:
    """The word for a value, and its parts; ``None``: it is none of ours."""
    if not supports(type(value)):
        return None
    if type(value).__module__.partition(".")[0] == "pandas":
        return _take_pandas(value)
    import numpy

    if isinstance(value, numpy.generic):
        return "numpy.scalar", [value.dtype.str, value.tobytes()] if value.dtype.kind in SIMPLE else [
            "O",
            value.item(),
        ]
    return "numpy.ndarray", _array(value)


def _array(value: Any) -> list[Any]:
    if value.dtype.kind in SIMPLE:
        import numpy

        return [value.dtype.str, list(value.shape), numpy.ascontiguousarray(value).tobytes()]
    if value.dtype.kind in "SU":
        return [value.dtype.str, list(value.shape), value.ravel().tolist()]
    return ["O", list(value.shape), value.ravel().tolist()]


def _take_pandas(value: Any) -> tuple[str, Any]:
    name = type(value).__name__
    if name in _SCALARS:
        return _SCALARS[name], value.isoformat()
    if name == "NAType":
        return "pandas.NA", None
    if name == "Period":
        return "pandas.Period", [str(value), value.freqstr]
    if name == "DataFrame":
        columns = [_column(value.iloc[:, number]) for number in range(value.shape[1])]
        return "pandas.DataFrame", [_index(value.columns), columns, _index(value.index)]
    if name == "Series":
        return "pandas.Series", [_column(value), _index(value.index), value.name]
    return "pandas.Index", _index(value)


def _column(series: Any) -> list[Any]:
    """The type that pandas has for it, and its entries."""
    return [_dtype(series.dtype), _array(_plain(series))]


def _dtype(kind: Any) -> Any:
    """The name of a type; of categories also what they are, in their order."""
    if type(kind).__name__ == "CategoricalDtype":
        return ["category", _index(kind.categories), bool(kind.ordered)]
    return str(kind)


def _plain(values: Any) -> Any:
    """Entries as numpy has them; of pandas' own types as objects, with None for what is missing."""
    import numpy

    if isinstance(values.dtype, numpy.dtype):
        return values.to_numpy()
    return values.astype(object).where(values.notna(), None).to_numpy()


def _index(index: Any) -> list[Any]:
    if hasattr(index, "levels"):
        levels = [_index(index.get_level_values(number)) for number in range(index.nlevels)]
        return ["levels", levels, list(index.names)]
    return [_dtype(index.dtype), _array(_plain(index.to_series())), index.name]


def make(word: str, parts: Any) -> Any:
    """The value again."""
    import numpy

    if word == "numpy.scalar":
        kind, data = parts
        return numpy.frombuffer(data, dtype=kind)[0] if kind != "O" else data
    if word == "numpy.ndarray":
        return _make_array(parts)
    import pandas

    if word in ("pandas.Timestamp", "pandas.Timedelta"):
        return getattr(pandas, word[7:])(parts)
    if word == "pandas.NA":
        return pandas.NA
    if word == "pandas.Period":
        return pandas.Period(parts[0], freq=parts[1])
    if word == "pandas.Index":
        return _make_index(parts)
    if word == "pandas.Series":
        column, index, name = parts
        return _make_column(column, _make_index(index)).rename(name)
    columns, values, index = parts
    rows = _make_index(index)
    made = [_make_column(column, rows) for column in values]
    frame = pandas.concat(made, axis=1) if made else pandas.DataFrame(index=rows)
    frame.columns = _make_index(columns)
    return frame


def _make_array(parts: Any) -> Any:
    import numpy

    kind, shape, data = parts
    if isinstance(data, bytes):
        return numpy.frombuffer(data, dtype=kind).reshape(shape).copy()
    made: Any = numpy.empty(len(data), dtype=object if kind == "O" else kind)
    made[:] = data
    return made.reshape(shape)


def _make_index(parts: Any) -> Any:
    import pandas

    kind, data, name = parts
    if kind == "levels":
        return pandas.MultiIndex.from_arrays([_make_index(level) for level in data], names=name)
    return pandas.Index(_make_array(data), name=name).astype(_make_dtype(kind))


def _make_column(column: Any, rows: Any) -> Any:
    import pandas

    return pandas.Series(_make_array(column[1]), index=rows).astype(_make_dtype(column[0]))


def _make_dtype(kind: Any) -> Any:
    if isinstance(kind, str):
        return kind
    import pandas

    return pandas.CategoricalDtype(_make_index(kind[1]), ordered=kind[2])
