"""What is wrong with a definition: collected, so that one look at a file shows all of it."""

from __future__ import annotations

from leftoff.errors import BadDefinition

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = ["BadDefinition", "Problems", "nearest"]

MOST = 20  # told at once


class Problems:
    """The problems of one file, each with its place: ``file:line:column: what``."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.found: list[tuple[int, int, str, str]] = []
        self.doubts: list[tuple[int, int, str, str]] = []

    def add(self, node: Any, message: str, hint: str = "") -> None:
        """At a node (or whatever has a line and a column)."""
        self.place(node.line, node.column, message, hint)

    def at(self, mark: Any, message: str, hint: str = "") -> None:
        """At a mark of the YAML parser, which counts from 0."""
        self.place(mark.line + 1, mark.column + 1, message, hint)

    def place(self, line: int, column: int, message: str, hint: str = "") -> None:
        entry = (line, column, message, hint)
        if entry not in self.found:
            self.found.append(entry)

    def doubt(self, line: int, column: int, message: str, hint: str = "") -> None:
        """Something that may well be right."""
        entry = (line, column, message, hint)
        if entry not in self.doubts:
            self.doubts.append(entry)

    def told(self) -> list[str]:
        """The doubts, a line each."""
        return [self._line(entry) for entry in sorted(self.doubts)]

    def _line(self, entry: tuple[int, int, str, str]) -> str:
        line, column, message, hint = entry
        return f"{self.path}:{line}:{column}: {message}" + (f". {hint}" if hint else "")

    def suggests(self, word: str, line: int) -> bool:
        """Whether a problem from this line on was told with that word as the right one."""
        return any(found >= line and f"`{word}`" in hint for found, _, _, hint in self.found)

    def fatal(self, line: int, column: int, message: str, hint: str = "") -> BadDefinition:
        """The error to raise where reading cannot go on."""
        self.place(line, column, message, hint)
        return self.error()

    def check(self) -> None:
        """Raise what was found."""
        if self.found:
            raise self.error()

    def error(self) -> BadDefinition:
        found = sorted(self.found, key=lambda entry: entry[:2])
        if len(found) == 1:
            line, column, message, hint = found[0]
            return BadDefinition(f"{self.path}:{line}:{column}: {message}", hint=hint)
        told = [self._line(entry) for entry in found[:MOST]]
        if len(found) > MOST:
            told.append(f"{self.path}: and {len(found) - MOST} more")
        return BadDefinition("\n".join(told), hint=f"{len(found)} problems; nothing was started.")


# What other tools call what we call otherwise.
_ELSEWHERE = {
    "needs": "depends_on dependson depends dependencies after requires wait_for",
    "run": "command commands cmd script exec bash sh",
    "when": "if condition only_if unless",
    "on_failure": "continue_on_error allow_failure ignore_errors onerror on_error fail_fast",
    "foreach": "for_each loop with_items matrix items each",
    "cwd": "working_directory workdir working_dir dir directory folder",
    "env": "environment",
    "id": "name",
    "title": "name label",
    "retries": "retry attempts max_attempts",
    "outputs": "artifacts produces creates",
    "steps": "jobs tasks stages",
    "vars": "variables inputs params parameters",
    "max_parallel": "concurrency parallel parallelism max_concurrency jobs",
    "ask": "question message prompt text",
    "with": "args arguments kwargs",
}


def nearest(word: str, known: Iterable[str]) -> str:
    """A question that names the known word most like this one; empty where none is."""
    from difflib import get_close_matches

    names = list(known)
    plain = word.lower().replace("-", "_")
    for name, others in _ELSEWHERE.items():
        if name in names and plain in others.split():
            return f"Did you mean `{name}`?"
    lower = {name.lower(): name for name in names}
    near = get_close_matches(word.lower(), lower, 1, 0.6)
    return f"Did you mean `{lower[near[0]]}`?" if near else ""
