"""SQLite's write-ahead log, read without SQLite: which frames are sound, and what lies behind the first bad one."""

from __future__ import annotations

import struct
from itertools import islice

from leftoff.store.sqlite.connection import LOG_FRAME, LOG_HEADER, PAGE_SIZE
from leftoff.store.sqlite.sums import differs_in_a_byte, sums, undone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from leftoff.store.sqlite.sums import Order, Sums

HEADER, FRAME = LOG_HEADER, LOG_FRAME
STEP = FRAME + PAGE_SIZE
_FIXED = struct.pack(">II", 3007000, PAGE_SIZE)


class Frame:
    """One page of the log, with what is written before it."""

    __slots__ = ("after", "covered", "number", "page", "page_number", "salts", "told")

    def __init__(self, number: int, data: bytes) -> None:
        self.number = number  # from 1
        self.page_number, self.after = struct.unpack(">II", data[:8])  # pages after its commit; 0: it is none
        self.salts = data[8:16]
        self.told: Sums = struct.unpack(">II", data[16:24])
        self.page = data[FRAME:]
        self.covered = data[:8] + self.page  # what the sums go over


class Log:
    """A log's bytes, walked through once. ``read``: so many frames are known to be sound, since SQLite reads them."""

    def __init__(self, data: bytes, read: int = 0) -> None:
        self.data = data
        self.order: Order = "big" if data[3:4] and data[3] & 1 else "little"
        self.salts = data[16:24]
        self.header_sound = len(data) >= HEADER and self._header_sound()
        self.valid = 0  # sound frames from the start
        self.frames = 0  # the last frame of this generation, sound or not
        self.commits_behind = 0  # in frames of this generation behind the sound ones
        self._state: Sums = (0, 0)  # the sums up to the sound frames' end
        if self.header_sound:
            self._walk(min(read, (len(data) - HEADER) // STEP))

    def _header_sound(self) -> bool:
        known = struct.unpack(">I", self.data[:4])[0] & ~1 == 0x377F0682 and self.data[4:12] == _FIXED
        return known and struct.pack(">II", *self._header_sums()) == self.data[24:32]

    def _header_sums(self) -> Sums:
        return sums(self.data[:24], self.order)

    def all_frames(self, behind: int = 0) -> Iterator[Frame]:
        """Every whole frame, or those behind the first few."""
        places = range(HEADER + behind * STEP, len(self.data) - STEP + 1, STEP)
        for number, offset in enumerate(places, behind + 1):
            yield Frame(number, self.data[offset : offset + STEP])

    def _walk(self, read: int) -> None:
        self._state, sound = self._header_sums(), True
        if read:
            last = next(self.all_frames(read - 1))
            self._state, self.valid, self.frames = last.told, read, read
        for frame in self.all_frames(read):
            ours = frame.salts == self.salts
            if sound:
                after = sums(frame.covered, self.order, self._state)
                sound = ours and after == frame.told
                if sound:
                    self.valid, self._state = frame.number, after
            if ours:
                self.frames = frame.number
                self.commits_behind += not sound and frame.after > 0

    def first_bad(self) -> Frame | None:
        """The frame behind the sound ones, if there is one."""
        offset = HEADER + self.valid * STEP
        part = self.data[offset : offset + STEP]
        return Frame(self.valid + 1, part) if len(part) == STEP else None

    def committed(self) -> tuple[dict[int, bytes], int]:
        """The newest committed pages of the sound part, and how many pages the database has after it (0: no commit)."""
        return _pages_of((frame, True) for frame in islice(self.all_frames(), self.valid))

    def salvaged(self) -> tuple[dict[int, bytes], int]:
        """As ``committed``, but past a frame whose page is damaged, where the next one proves what its sums were.

        A damaged page stands as it was before, unless it is written again further on.
        """
        return _pages_of(self._provable()) if self.header_sound else ({}, 0)

    def _provable(self) -> Iterator[tuple[Frame, bool]]:
        """Frames, and whether each is sound, as long as what their sums were is certain."""
        state, frames = self._header_sums(), list(self.all_frames())
        for frame, following in zip(frames, [*frames[1:], None], strict=True):
            state = sums(frame.covered, self.order, state)
            if frame.salts != self.salts:
                return
            sound = state == frame.told
            if not sound and (
                following is None or sums(following.covered, self.order, frame.told) != following.told
            ):
                return
            state = frame.told
            yield frame, sound

    # -- one wrong byte

    def flipped(self) -> bool:
        """Whether one wrong byte explains why the log is not sound there. No torn write looks like that."""
        return next(self._candidates(), None) is not None

    def mends(self, judge: Callable[[Log], Callable[[int, bytes], bool]]) -> list[Log]:
        """The log with that byte put right: one, if it is certain which byte it is.

        Where several bytes explain the sums, ``judge`` gives, for a log that is sound further on, who tells whether a
        page with this number may be so.
        """
        if not self.header_sound:
            heads = {head for head in self._headers() if Log(head + self.data[HEADER:]).valid}
            return [Log(head + self.data[HEADER:]) for head in heads]
        parts = list(self._candidates())
        if len(parts) < 2:
            return [Log(self._with(part)) for part in parts]
        longer = Log(self._with(parts[-1]))
        again = {
            frame.page_number
            for frame in longer.all_frames()
            if self.valid + 1 < frame.number <= longer.valid
        }
        proves = judge(longer)
        found = {}
        for part in parts:
            frame = Frame(0, part)
            if frame.page_number in again:  # what is on it need not be known
                found[part[:8]] = part
            elif proves(frame.page_number, frame.page):
                found[part] = part
        return [Log(self._with(part)) for part in found.values()]

    def _with(self, frame: bytes) -> bytes:
        offset = HEADER + self.valid * STEP
        return self.data[:offset] + frame + self.data[offset + STEP :]

    def _headers(self) -> Iterator[bytes]:
        if len(self.data) < HEADER:
            return
        told = struct.unpack(">II", self.data[24:32])
        for order in ("little", "big"):
            found = sums(self.data[:24], order)
            for start in (self.data[:24], *undone(self.data[:24], found, told, order)):
                yield start + struct.pack(">II", *sums(start, order))

    def _candidates(self) -> Iterator[bytes]:
        """Every frame that would be sound here and differs from the one that is in one byte."""
        frame = self.first_bad()
        if frame is None:
            return
        found = sums(frame.covered, self.order, self._state)
        told = struct.pack(">II", *frame.told)
        sound = struct.pack(">II", *found)
        if frame.salts != self.salts:
            if sound == told and differs_in_a_byte(frame.salts, self.salts):
                yield frame.covered[:8] + self.salts + told + frame.page
            return
        content, own = self._goes_on_from(frame.told), self._goes_on_from(found)
        if differs_in_a_byte(sound, told) and (own or not content):
            yield frame.covered[:8] + self.salts + sound + frame.page
        if own and not content:
            return  # the next frame proves that only the sums are wrong
        for covered in undone(frame.covered, found, frame.told, self.order):
            yield covered[:8] + self.salts + told + covered[8:]

    def _goes_on_from(self, state: Sums) -> bool:
        """Whether the frame behind the first bad one follows from these sums."""
        offset = HEADER + (self.valid + 1) * STEP
        part = self.data[offset : offset + STEP]
        if len(part) < STEP:
            return False
        frame = Frame(0, part)
        return frame.salts == self.salts and sums(frame.covered, self.order, state) == frame.told


def _pages_of(frames: Iterable[tuple[Frame, bool]]) -> tuple[dict[int, bytes], int]:
    """The newest committed pages, of the sound frames, and how many pages there are after the last commit."""
    pages: dict[int, bytes] = {}
    fresh: dict[int, bytes] = {}
    count = 0
    for frame, sound in frames:
        if sound:
            fresh[frame.page_number] = frame.page
        if frame.after:
            pages.update(fresh)
            fresh, count = {}, frame.after
    return pages, count
