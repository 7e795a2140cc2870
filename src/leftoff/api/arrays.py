"""How values of numpy and pandas are recorded.

An array of numbers is stored as its bytes with type and shape; one of objects as a list of its entries. A large one
becomes a blob, as any large value does. Nothing is pickled.
"""

from __future__ import annotations

from functools import partial
from typing import Any

Found = tuple[str, Any, Any]  # the fields of a `Kind`

_PANDAS = {
    "Timestamp": "pandas.Timestamp",
    "NaTType": "pandas.Timestamp",
    "Timedelta": "pandas.Timedelta",
    "Period": "pandas.Period",
    "NAType": "pandas.NA",
    "DataFrame": "pandas.DataFrame",
    "Series": "pandas.Series",
    **{
        f"{kind}Index": "pandas.Index"
        for kind in ("", "Range", "Datetime", "Timedelta", "Period", "Categorical", "Multi")
    },
}
SIMPLE = "biufcmM"  # kinds of numpy types that are stored as bytes: booleans, numbers, times


def kind_of(cls: type) -> Found | None:
    """Return how values of a class of numpy or pandas are recorded; None if they cannot be."""
    name = cls.__name__
    if cls.__module__.partition(".")[0] == "numpy":
        import numpy

        if issubclass(cls, numpy.generic):
            return kind_named("numpy.scalar")
        return kind_named("numpy.ndarray") if cls is numpy.ndarray else None
    return kind_named(_PANDAS[name]) if name in _PANDAS else None


def kind_named(word: str) -> Found | None:
    """Return the kind that records call by this word."""
    if word not in _TAKE:
        return None
    return word, _TAKE[word], partial(_make, word)


def _take_scalar(value: Any) -> list[Any]:
    return [value.dtype.str, value.tobytes()] if value.dtype.kind in SIMPLE else ["O", value.item()]


def _array(value: Any) -> list[Any]:
    if value.dtype.kind in SIMPLE:
        import numpy

        return [value.dtype.str, list(value.shape), numpy.ascontiguousarray(value).tobytes()]
    if value.dtype.kind in "SU":
        return [value.dtype.str, list(value.shape), value.ravel().tolist()]
    return ["O", list(value.shape), value.ravel().tolist()]


def _take_frame(value: Any) -> list[Any]:
    columns = [_column(value.iloc[:, number]) for number in range(value.shape[1])]
    return [_index(value.columns), columns, _index(value.index)]


def _take_isoformat(value: Any) -> str:
    return str(value.isoformat())


def _column(series: Any) -> list[Any]:
    """Return the type that pandas has for it, and its entries."""
    return [_dtype(series.dtype), _array(_plain(series))]


def _dtype(kind: Any) -> Any:
    """Return the name of a type. Of a categorical one also its categories, in their order."""
    if type(kind).__name__ == "CategoricalDtype":
        return ["category", _index(kind.categories), bool(kind.ordered)]
    return str(kind)


def _plain(values: Any) -> Any:
    """Return entries as numpy has them. Those of pandas' own types become objects, with None if one is missing."""
    import numpy

    if isinstance(values.dtype, numpy.dtype):
        return values.to_numpy()
    return values.astype(object).where(values.notna(), None).to_numpy()


def _index(index: Any) -> list[Any]:
    if hasattr(index, "levels"):
        levels = [_index(index.get_level_values(number)) for number in range(index.nlevels)]
        return ["levels", levels, list(index.names)]
    return [_dtype(index.dtype), _array(_plain(index.to_series())), index.name]


def _make(word: str, parts: Any) -> Any:
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


_TAKE = {
    "numpy.scalar": _take_scalar,
    "numpy.ndarray": _array,
    "pandas.Timestamp": _take_isoformat,
    "pandas.Timedelta": _take_isoformat,
    "pandas.Period": lambda value: [str(value), value.freqstr],
    "pandas.NA": lambda value: None,
    "pandas.DataFrame": _take_frame,
    "pandas.Series": lambda value: [_column(value), _index(value.index), value.name],
    "pandas.Index": _index,
}
