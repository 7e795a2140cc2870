"""A run's steps, read so that a long run costs little: those that are settled are not decoded.

Most steps of a long run ended well, in time, and left at most one file. That is seen from their bytes, as the codec
writes what leftoff itself records of such a step: keys in order, nothing between them, every quote inside a text
escaped. Whatever looks different in any way is decoded and looked at more closely.
"""

from __future__ import annotations

import re
from _collections_abc import Mapping
from _operator import itemgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from leftoff.model.codec import Row

_STORED = itemgetter(2)
# What comes behind the status says nothing about whether the step is settled.
_SETTLED = re.compile(
    rb'J\{(?:"args":\{(?:[^"{}\\]|"[^"\\]*")*+\},)?(?:"attempt":\d+,)?(?:"batch":\d+,)?"completed_at":"([^"]{24})",'
    rb'(?:"digest":"[\w:]+",)?(?:"kind":"\w+",)?(?:"order":\d+,)?'
    rb'(?:"outputs":\["([^"\\]*)"\],)?(?:"result":(?:"[^"\\]*"|[\w.+-]+),)?'
    rb'"started_at":"([^"]{24})","status":"completed"'
).match


class Steps(Mapping):  # type: ignore[type-arg]
    """A run's steps by path, in the order of their keys.

    ``open``: those that are not settled. ``wrote``: the paths of what the settled ones left.
    """

    def __init__(
        self, rows: Sequence[Row], decode: Callable[[Sequence[Row]], dict[str, Any]], now: str
    ) -> None:
        """``now``: as times are written."""
        self._given = rows
        self._by_path: dict[str, Row] | None = None
        self._decode = decode
        self._decoded: dict[str, Any] = {}
        self.wrote: list[str] = []
        self.open: dict[str, dict[str, Any]] = decode(self._glance(rows, now.encode()))

    def _glance(self, rows: Sequence[Row], now: bytes) -> list[Row]:
        """Those that are not seen to be settled. One loop with everything at hand: it is done for every step."""
        left, wrote = [], []
        for row, found in zip(rows, map(_SETTLED, map(_STORED, rows)), strict=True):
            if found is None:
                left.append(row)
                continue
            ended, path, began = found.groups()
            if not began <= ended <= now:
                left.append(row)
            elif path is not None:
                wrote.append(path)
        if wrote:  # at once: a newline in a path would be escaped
            self.wrote = b"\n".join(wrote).decode().split("\n")
        return left

    def add(self, path: str, record: dict[str, Any]) -> None:
        """One that is not there yet, unless it is."""
        if path not in self._rows:
            self._given, self._by_path = [*self._given, (path, b"", b"")], None
            self.open[path] = record

    @property
    def _rows(self) -> dict[str, Row]:
        if self._by_path is None:
            self._by_path = {row[0]: row for row in self._given}
        return self._by_path

    def status(self, path: str) -> str | None:
        """Of a step; ``None`` where there is no such step."""
        known = self.open.get(path)
        if known is not None:
            found: str | None = known.get("status")
            return found
        return "completed" if path in self._rows else None

    def __getitem__(self, path: str) -> dict[str, Any]:
        known = self.open.get(path) or self._decoded.get(path)
        if known is None:
            known = self._decoded[path] = self._decode([self._rows[path]])[path]
        return known

    def __iter__(self) -> Iterator[str]:
        return (row[0] for row in self._given)

    def __len__(self) -> int:
        return len(self._given)
