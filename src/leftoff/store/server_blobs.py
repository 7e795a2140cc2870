"""Blobs as rows: cut into pieces, so that every machine has them, and neither side ever holds a whole one.

Pieces are durable before anything refers to them. A blob that nothing refers to any more is no longer known. Its pieces
stay for a grace, in which a commit may take it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from leftoff.errors import Corrupt, StoreUnavailable
from leftoff.store.base import Save
from leftoff.store.blobs import GRACE_S, UNCLAIMED_S, Packing, proved, pruned, unpacked
from leftoff.store.rows import BlobRow
from leftoff.store.server_connection import Q

if TYPE_CHECKING:
    from leftoff.store.postgres import PostgresStore

T = TypeVar("T")

PIECE = 1 << 18
AT_ONCE = 8  # pieces that travel together


class PostgresBlobs:
    """The blobs of one store."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self.grace = GRACE_S

    def together(self, work: Callable[[Save], T]) -> T:
        """See ``Store.save_together``."""
        made: dict[bytes, tuple[int, BlobRow]] = {}
        uploads: list[int] = []

        def save(chunks: Iterable[bytes]) -> BlobRow:
            packing = Packing(chunks)
            upload = self._upload(packing, uploads)
            made[packing.row.hash] = (upload, packing.row)
            return packing.row

        try:
            done = work(save)
        except BaseException:
            self._drop(uploads)
            raise
        self._settle(made)  # where that is cut short, a blob may have them: a sweep finds out
        self._drop([upload for upload in uploads if upload not in {there for there, _ in made.values()}])
        return done

    def _upload(self, packing: Packing, uploads: list[int]) -> int:
        """Send the pieces of a blob; return the number of the upload.

        If the connection is lost meanwhile, the server may have the pieces, or an upload that a sweep finds.
        """
        upload, number = 0, 0
        for some in _groups(_pieces(packing)):
            if number == 0:
                upload = int(self._store.asked(Q.add_upload, (some,))[0][0])
                uploads.append(upload)
            else:
                self._store.asked(Q.add_pieces, (upload, number, some))
            number += len(some)
        return upload

    def _settle(self, made: dict[bytes, tuple[int, BlobRow]]) -> None:
        def work(tx: Any) -> None:
            for hash, (upload, row) in sorted(made.items()):
                tx.note(Q.drop_former, (hash, upload))
                tx.note(Q.put_blob, (hash, upload, *row[1:], UNCLAIMED_S))
            uploads = {upload for upload, _ in made.values()}
            if len(tx.rows(Q.hold_uploads, (sorted(uploads),))) < len(uploads):
                raise StoreUnavailable(
                    "A file took so long to be saved that the part which was there was taken for a leftover.",
                    hint="Nothing was changed. Try again.",
                )

        if made:
            self._store.write(work)

    def _drop(self, uploads: list[int]) -> None:
        if uploads:
            self._store.asked(Q.drop_uploads, (uploads,))

    def load(self, row: BlobRow) -> Iterator[bytes]:
        """Yield the content in pieces, the last one only once everything proved right."""
        return proved(row, unpacked(self._stored(row), row.encoding, row.hash.hex()), row.hash.hex())

    def _stored(self, row: BlobRow) -> Iterator[bytes]:
        number, left = 0, row.stored
        while left > 0:
            rows = self._store.asked(Q.pieces, (row.hash, number, AT_ONCE))
            if [n for n, _ in rows] != list(range(number, number + len(rows))) or not rows:
                if self._store.read(lambda view: view.blob(row.hash)) is None:
                    raise pruned(row.hash)
                where = row.hash.hex()
                raise Corrupt(f"The blob {where} cannot be read: pieces of it are gone.", where=where)
            for _, data in rows:
                left -= len(data)
                yield data
            number += len(rows)


def _pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of one size: the same content must always be the same pieces."""
    held = b""
    for chunk in chunks:
        held += chunk
        while len(held) >= PIECE:
            yield held[:PIECE]
            held = held[PIECE:]
    if held:
        yield held


def _groups(pieces: Iterable[bytes]) -> Iterator[list[bytes]]:
    """At least one group, be it empty."""
    some: list[bytes] = []
    sent = False
    for piece in pieces:
        some.append(piece)
        if len(some) == AT_ONCE:
            yield some
            some, sent = [], True
    if some or not sent:
        yield some
