"""Where several bytes would explain a wrong checksum: the hashes of what is on the page decide, and nothing else."""

from __future__ import annotations

from leftoff.model.codec import sha256
from leftoff.store.repair.carve import Carver
from leftoff.store.repair.salvage import Source
from leftoff.store.sqlite.pages import mends

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from leftoff.store.repair.carve import Row

TRIED = 12  # readings of the whole file, at most


class Candidates:
    """Judges pages that may stand in the place of damaged ones of one source."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._owners: dict[int, set[int]] | None = None

    def of(self, number: int) -> list[bytes]:
        """The pages, a byte away from the one that is there, that are sound and on which every row has its hash."""
        page = self._source.get(number)
        found = mends(page) if page is not None else []
        return found if len(found) < 2 else [page for page in found if self.fits(number, page)]

    def fits(self, number: int, page: bytes) -> bool:
        """Whether every row that has bytes on this page has its hash with it."""
        carver = Carver(self._source.with_page(number, page).get, self._source.count)
        rows = [row for owner in self._owners_of(number) for row in carver.cells(owner)]
        return all(row is not None and _has_its_hash(row) for row in rows)

    def readings(self) -> Iterator[Source]:
        """The source with each page that would explain the damage: which one is right, the versions' digests tell."""
        for number in sorted(self._source.bad):
            pages = self.of(number)
            if 1 < len(pages) <= TRIED:
                yield from (self._source.with_page(number, page) for page in pages)

    def _owners_of(self, number: int) -> set[int]:
        """The pages whose rows go on on this one; those of a row's start are its own."""
        if self._owners is None:
            self._owners = {}
            for row in Carver(self._source.get, self._source.count).rows():
                for behind in row.pages[1:]:
                    self._owners.setdefault(behind, set()).add(row.pages[0])
        return self._owners.get(number, {number})


def _has_its_hash(row: Row) -> bool:
    data = row.values.get("data")
    return data is None or sha256(data).digest() == row.values["hash"]
