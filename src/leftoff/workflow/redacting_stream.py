"""Mask secrets in a stream of bytes that arrives in arbitrary pieces, and write it to the log of an attempt.

Masking needs context: a token may be cut in two by the pipe, a private key runs over many lines. So whole lines are
masked together, and an unfinished line waits for its end. What is not UTF-8 passes unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from leftoff.engine.redactor import MASK, Redactor, forms_of

LONGEST = 1 << 16  # a line that is longer is shown in pieces
CONTEXT = 1 << 10  # how much of such a line is kept back, at least
SMALL = 1 << 12  # a text of this size that looks suspicious is masked as a whole
KEY_LINES = 400
_MASK = MASK.encode()
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_HEADERS = (b"Proc-Type:", b"DEK-Info:", b"Comment:", b"Version:")


class Censor:
    """Masks a stream. Without a ``redactor``, because the project switched it off, only the ``secrets`` are masked."""

    def __init__(self, redactor: Redactor | None, secrets: Iterable[bytes]) -> None:
        self._redactor = redactor
        self._needles = _needles(secrets)
        self._line = b""  # the unfinished line
        self._key = 0  # lines of a private key that are still to be dropped, at most
        self._indent = 0  # what each of them may have in front

    def feed(self, data: bytes) -> bytes:
        """Return what can be shown now that this arrived: whole lines."""
        block = self._line + data if self._line else data
        cut = block.rfind(b"\n") + 1
        lines, self._line = block[:cut], block[cut:]
        out = self._masked(lines, whole=True) if cut else b""
        return out if len(self._line) < LONGEST else out + self._shorten()

    def end(self) -> bytes:
        """Return the rest."""
        line, self._line = self._line, b""
        return self._masked(line, whole=True)

    def _shorten(self) -> bytes:
        """Return the beginning of a long line, up to a place that is not inside a secret."""
        line, self._line = self._line, b""
        back = max([CONTEXT, *map(len, self._needles)])
        whole = self._masked(line, whole=False)
        while back < len(line):
            head = self._masked(line[:-back], whole=False)
            if whole == head + self._masked(line[-back:], whole=False):
                self._line = line[-back:]
                return head
            back *= 2
        return whole

    def _masked(self, block: bytes, *, whole: bool) -> bytes:
        for needle in self._needles:
            if needle in block:
                block = block.replace(needle, _MASK)
        if self._redactor is None:
            return block
        if self._key or b"PRIVATE KEY" in block:
            block = self._without_keys(block, whole)
        text = block.decode("utf-8", "surrogateescape")
        masked = _mask(self._redactor, text)
        return block if masked is text else masked.encode("utf-8", "surrogateescape")

    def _without_keys(self, block: bytes, whole: bool) -> bytes:
        """Return the lines without private keys. A key that continues in the next lines is remembered."""
        out = []
        left, indent = self._key, self._indent
        for line in block.splitlines(keepends=True):
            if left and not _ends(line) and (_of_key(line) or _of_key(line[indent:])):
                left -= 1
                continue
            if left and _ends(line):
                line = line.partition(b"-----END ")[2].partition(b"-----")[2].lstrip()
            before, mark, after = line.partition(b"-----BEGIN ")
            left = KEY_LINES if mark and _begins(after) else 0
            if left:
                indent, line = len(before), before + _MASK + line[len(line.rstrip(b"\r\n")) :]
            out.append(line)
        if whole:
            self._key, self._indent = left, indent
        return b"".join(out)


class StepLog:
    """Appends redacted output to a file, which it creates for the first line.

    Bytes that cannot be written are counted and reported at the end of the log if possible.
    """

    def __init__(self, path: str, redactor: Redactor | None, secrets: Iterable[bytes]) -> None:
        self._censor = Censor(redactor, secrets)
        self._lost = 0
        self._why = ""
        self._path = path
        self._fd = -1

    def add(self, data: bytes) -> None:
        self._write(self._censored(self._censor.feed, data))

    def note(self, line: str) -> None:
        """Write a line of leftoff's own."""
        self._write(self._censored(self._censor.end))
        self._write(f"leftoff: {line}\n".encode("utf-8", "replace"))

    def close(self) -> None:
        self._write(self._censored(self._censor.end))
        if self._lost:
            self.note(f"{self._lost} bytes of output are missing here: {self._why}")
        if self._fd >= 0:
            os.close(self._fd)

    def _censored(self, step: Callable[..., bytes], *data: bytes) -> bytes:
        """Redact data. Output that cannot be redacted is withheld; the command goes on."""
        try:
            return step(*data)
        except Exception as error:
            return f"leftoff: output is withheld here, it could not be redacted: {error!r}\n".encode()

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            if view and self._fd < 0:
                self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            self._why = error.strerror or str(error)
        self._lost += len(view)


def _needles(secrets: Iterable[bytes]) -> list[bytes]:
    """Return each secret in all its forms, the longest first, since one may be part of another."""
    texts = [secret.decode("utf-8", "surrogateescape") for secret in secrets]
    found = {form.encode("utf-8", "surrogateescape") for text in texts for form in forms_of(text)}
    return sorted((needle for needle in found if needle.strip()), key=len, reverse=True)


def _mask(redactor: Redactor, text: str) -> str:
    """Mask what is suspicious, and look closely at nothing else. Return the same object if nothing is masked."""
    if len(text) <= SMALL:
        return redactor.mask(text)
    if not redactor.suspicious("", text):
        return text
    cut = text.find("\n", len(text) // 2) + 1
    if not cut or cut == len(text):
        return redactor.mask(text)
    first, second = text[:cut], text[cut:]
    masked, rest = _mask(redactor, first), _mask(redactor, second)
    return text if masked is first and rest is second else masked + rest


def _begins(line: bytes) -> bool:
    """Return whether a key begins after ``-----BEGIN`` and continues in the next line."""
    kind, mark, after = line.partition(b"-----")
    return bool(mark) and b"PRIVATE KEY" in kind and not after.strip()


def _ends(line: bytes) -> bool:
    return b"-----END " in line


def _of_key(line: bytes) -> bool:
    """Return whether a line may be one of a private key, perhaps with something in front (a time, a name)."""
    words = line.split()
    if not words or line.lstrip().startswith(_HEADERS):
        return True
    return not words[-1].translate(None, _BASE64) and (len(words) == 1 or len(words[-1]) >= 32)
