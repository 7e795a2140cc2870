"""Blobs as rows: cut into pieces, so that every machine has them, and neither side ever holds a whole one.

Or as files, in a folder that all machines share (the setting ``blobs``); their rows are here all the same. What is
there in pieces is found, too, whatever the setting says now.

Pieces, and files, are durable before anything refers to them. A blob that nothing refers to any more is no longer
known; its pieces stay for a grace, from where a commit takes it back. A file is taken away, or taken back, by who holds
the row.
"""

from __future__ import annotations

import os

from leftoff.errors import Corrupt, Invalid, StoreUnavailable
from leftoff.files import failure, write_private
from leftoff.store.blobs import GRACE_S, UNCLAIMED_S, Blobs, Packing, proved, pruned, unpacked
from leftoff.store.server_connection import Q

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, TypeVar

    from leftoff.store.base import Save
    from leftoff.store.postgres import PostgresStore
    from leftoff.store.rows import BlobRow
    from leftoff.store.server_connection import Rows

    T = TypeVar("T")
    Ask = Callable[[str, Sequence[Any]], Rows]

PIECE = 1 << 18
IN_FOLDER = -1  # in the place of an upload's number: it is a file
FOLDER = "blobs"  # the fact that says which folder that is
OWNER = "store"  # the file in it that says whose it is: the id of the store
AT_ONCE = 8  # pieces that travel together


class PostgresBlobs:
    """The blobs of one store."""

    def __init__(self, store: PostgresStore, folder: str | None = None) -> None:
        self._store = store
        self.grace = GRACE_S
        self.folder = folder
        self.files = Blobs(folder) if folder else None
        self._ours = False  # whether the folder is known to be this store's

    def together(self, work: Callable[[Save], T]) -> T:
        """See ``Store.save_together``."""
        return self._in_folder(self.files, work) if self.files is not None else self._in_pieces(work)

    def _need_ours(self, *, make: bool = True) -> None:
        """A folder is of one store: what another one removes in there might be ours. ``make``: it is from now on."""
        if self._ours or self.folder is None:
            return
        path = os.path.join(self.folder, OWNER)
        own = next(str(value) for name, value in self._store.asked(Q.meta) if name == "store_id")
        if make and not os.path.exists(path):
            mark = f"{path}.{own}"
            write_private(mark, [own.encode()])
            try:
                os.link(mark, path)  # of several stores that want it, one gets it
            except FileExistsError:
                pass
            os.unlink(mark)
        try:
            with open(path, encoding="ascii") as file:
                owner = file.read()
        except FileNotFoundError:
            return
        if owner != own:
            raise Invalid(
                f"The folder {self.folder} has the blobs of another store.",
                hint="Nothing was changed. Name another one in leftoff.toml (blobs = …): each store needs its own.",
            )
        self._ours = True

    def _in_folder(self, files: Blobs, work: Callable[[Save], T]) -> T:
        self._typed(self._need_ours)
        batch = files.batch()
        made: dict[bytes, tuple[int, BlobRow]] = {}

        def save(chunks: Iterable[bytes]) -> BlobRow:
            row = self._typed(lambda: batch.save(chunks))
            made[row.hash] = (IN_FOLDER, row)
            return row

        try:
            done = work(save)
        except BaseException:
            batch.drop()
            raise
        self._typed(batch.settle)
        self._settle(made)
        return done

    def _typed(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except OSError as error:
            raise failure(error, self.folder or "") from error

    def _in_pieces(self, work: Callable[[Save], T]) -> T:
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
        upload, number = 0, 0
        for some in _groups(_pieces(packing)):
            upload = self._send(upload, number, some)
            if number == 0:
                uploads.append(upload)
            number += len(some)
        return upload

    def _send(self, upload: int, number: int, some: list[bytes]) -> int:
        """A connection that is lost meanwhile may have sent them already, as they are, or have left an upload behind,
        which a sweep finds."""
        if number == 0:
            return int(self._store.asked(Q.add_upload, (some,))[0][0])
        self._store.asked(Q.add_pieces, (upload, number, some))
        return upload

    def _settle(self, made: dict[bytes, tuple[int, BlobRow]]) -> None:
        def work(tx: Any) -> None:
            for hash, (upload, row) in sorted(made.items()):
                tx.note(Q.drop_former, (hash, upload))
                tx.note(Q.put_blob, (hash, upload, row.size, row.stored, row.encoding, UNCLAIMED_S))
            if self.files is not None:
                tx.put_fact(FOLDER, self.folder)
                self.hold(tx, made)
            uploads = {upload for upload, _ in made.values()} - {IN_FOLDER}
            if uploads and len(tx.rows(Q.hold_uploads, (sorted(uploads),))) < len(uploads):
                raise StoreUnavailable(
                    "A file took so long to be saved that the part which was there was taken for a leftover.",
                    hint="Nothing was changed. Try again.",
                )

        if made:
            self._store.write(work)

    def _drop(self, uploads: list[int]) -> None:
        if uploads:
            self._store.asked(Q.drop_uploads, (uploads,))

    def hold(self, tx: Any, hashes: Iterable[bytes]) -> None:
        """Their rows are this transaction's, and their files in their places: nobody takes them away."""
        if self.files is not None:
            for hash, upload in tx.rows(Q.hold_blobs, (sorted(hashes),)):
                if upload == IN_FOLDER:
                    self.files.present(hash)

    def discard(self, hashes: Iterable[bytes]) -> None:
        """Files of blobs whose rows go, by who holds those."""
        if self.files is not None:
            for hash in hashes:
                self.files.discard(hash)

    def load(self, row: BlobRow, ask: Ask | None = None) -> Iterator[bytes]:
        """The content in pieces; the last one only once everything proved right. ``ask``: in this snapshot."""
        files = self.files
        if files is not None and any(map(os.path.exists, (files.path(row.hash), files.trash_path(row.hash)))):
            return files.load(row, lambda: self._is_forgotten(row.hash))
        stored = self._stored(row, ask or self._ask)
        return proved(row, unpacked(stored, row.encoding, row.hash.hex()), row.hash.hex())

    def _ask(self, sql: str, values: Sequence[Any]) -> Rows:
        return self._store.asked(sql, values)

    def _stored(self, row: BlobRow, ask: Ask) -> Iterator[bytes]:
        number, left = 0, row.stored
        while left > 0:
            rows = ask(Q.pieces, (row.hash, number, AT_ONCE))
            if [n for n, _ in rows] != list(range(number, number + len(rows))) or not rows:
                raise self._gone(row, in_snapshot=ask != self._ask)
            for _, data in rows:
                left -= len(data)
                yield data
            number += len(rows)

    def _is_forgotten(self, hash: bytes) -> bool:
        return self._store.read(lambda view: view.blob(hash)) is None

    def _gone(self, row: BlobRow, *, in_snapshot: bool) -> Exception:
        if not in_snapshot and self._is_forgotten(row.hash):
            return pruned(row.hash)
        where = row.hash.hex()
        if self._ask(Q.blob_upload, (row.hash,)) == [(IN_FOLDER,)]:
            return self._elsewhere(where)
        return Corrupt(f"The blob {where} cannot be read: pieces of it are gone.", where=where)

    def _elsewhere(self, hash: str) -> Exception:
        folder = self._store.read(lambda view: view.fact(FOLDER)) or "a folder"
        if self.files is not None:
            path = self.files.path(bytes.fromhex(hash))
            return Corrupt(f"The blob {path} cannot be read: it is not there.", where=path)
        return StoreUnavailable(
            f"The blob {hash} is a file in {folder}, which this project's settings do not name.",
            hint=f'Mount it here, and name it in leftoff.toml: blobs = "{folder}"',
        )


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
