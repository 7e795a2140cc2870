"""Values with named fields."""

from __future__ import annotations

import pytest

from leftoff.model.fields import Fields


class Point(Fields):
    x: int
    y: int = 0


class Named(Point):
    name: str = "p"


def test_by_order_and_by_name() -> None:
    assert Point(1, 2) == Point(y=2, x=1)
    assert (1, 0) == (Point(1).x, Point(1).y)
    assert Named(1, 2, "q").name == "q"
    assert Named(1) != Point(1)


def test_the_same_with_other_values() -> None:
    assert Point(1, 5) == Point(1, 2).but(y=5)
    assert "Point(x=1, y=2)" == repr(Point(1, 2))


@pytest.mark.parametrize(
    ("values", "named", "wrong"),
    [
        ((), {}, "must be given 'x'"),
        ((1, 2, 3), {}, "2 fields"),
        ((1,), {"x": 2}, "twice"),
        ((1,), {"z": 2}, "'z'"),
    ],
)
def test_what_does_not_fit(values: tuple[int, ...], named: dict[str, int], wrong: str) -> None:
    with pytest.raises(TypeError, match=wrong):
        Point(*values, **named)
