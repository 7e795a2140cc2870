"""How the turns of a run read: what was asked, what was done, where it stopped, what is left."""

from __future__ import annotations

from leftoff.engine.read.quoting import named, quoted, word
from leftoff.engine.read.which import OPEN_TURN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FILES = 12  # names in a line
_FAILURES = 5
_LEFT = 5  # turns
_WORKING = ("alive", "quiet", "stalled")  # health of a run that somebody may be working on


def turns_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The turns of a run, in order, each with its number."""
    known = found["records"].get("turn", {})
    turns = [(key, turn) for key, turn in known.items() if isinstance(turn, dict)]
    return [{**turn, "number": key.lstrip("0") or key} for key, turn in turns]


def other_errors(records: dict[str, Any]) -> dict[str, Any]:
    """Return the errors on record that did not end a turn: ``stopped`` reports the error of a turn."""
    ends = [turn.get("error") for turn in records.get("turn", {}).values() if isinstance(turn, dict)]
    return {key: error for key, error in records.get("error", {}).items() if error not in ends}


def became(turn: dict[str, Any], health: str) -> str:
    """What became of a turn, in words."""
    status = turn.get("status")
    error = turn.get("error")
    if status == "completed":
        first = turn.get("continues")
        return (
            f"changed nothing, so that turn {str(first).lstrip('0')} is still open" if first else "ended well"
        )
    if status == "failed" or error:
        why = error.get("message") or error.get("type") if isinstance(error, dict) else None
        return f"ended in an error: {quoted(why, 200)}" if why else "ended in an error"
    if status == "interrupted":
        return "was cut off"
    return "is not over" if health in _WORKING else "was cut off: its session is gone"


def changed(turn: dict[str, Any]) -> str:
    """The files that a turn changed, and those that changed in it by nobody knows whom."""
    files, unclaimed = _files(turn, "files"), _files(turn, "unclaimed")
    others = int(turn.get("others") or 1)
    were = f"{others} others were" if others > 1 else "another was"
    return (f"; changed {files}" if files else "") + (
        f"; changed while {were} at work, nobody said by whom: {unclaimed}" if unclaimed else ""
    )


def _files(turn: dict[str, Any], name: str) -> str:
    """A list of files, as far as they fit into a line."""
    files = [word(path) for path in turn.get(name) or []]
    more = len(files[_FILES:]) + int(turn.get(f"more_{name}") or 0)
    return ", ".join(files[:_FILES]) + (f" and {more} more" if more else "")


def asked(turns: list[dict[str, Any]], health: str) -> list[str]:
    """What was asked, newest first, and what became of it. ``stopped`` reports the error that ended a turn."""
    out = []
    for turn in reversed(turns):
        end = "ended in an error" if turn.get("error") else became(turn, health)
        out.append(f"- {turn['number']}: {quoted(turn.get('prompt') or '', 300)}\n  {end}{changed(turn)}")
    return out


def stopped(turns: list[dict[str, Any]], health: str) -> list[str]:
    """Where it stopped: what became of the last turn (of the one before, while somebody is at work), what failed in it,
    what the agent said last."""
    known = turns[:-1] if turns and _is_at_work(turns[-1], health) else turns
    if not (known or turns):
        return []
    turn = (known or turns)[-1]
    who = f" ({word(turn['agent'])})" if turn.get("agent") else ""
    end = became(turn, health)
    out = [f"- turn {turn['number']}{who} {named(end)}"]
    if turn.get("said"):
        out.append(f"- the agent's last words: {quoted(turn['said'], 1200)}")
    for failure in (turn.get("failed") or [])[-_FAILURES:]:
        if isinstance(failure, dict):
            out.append(
                f"- failed: {quoted(failure.get('command') or '', 200)}: {quoted(failure.get('error') or '', 200)}"
            )
    return out


def _is_at_work(turn: dict[str, Any], health: str) -> bool:
    return turn.get("status") == "running" and health in _WORKING


def is_cut_off(found: dict[str, Any]) -> bool:
    """Whether the last turn of a run did not end well, and nobody is at work on it."""
    turns = turns_of(found)
    is_open = bool(turns) and bool(found["records"].get("run", {}).get(OPEN_TURN))
    return is_open and turns[-1].get("status") != "completed" and not _is_at_work(turns[-1], found["health"])


def left(turns: list[dict[str, Any]], records: dict[str, Any]) -> list[str]:
    """What was asked in the turns that are open. ``records``: those of the run."""
    key, out = records.get("run", {}).get(OPEN_TURN), list[str]()
    first = turns[-1].get("continues") or key if turns else key
    for turn in reversed(turns if key else []):
        if turn.get("status") != "completed":
            out.append(f"- what turn {turn['number']} was asked: {quoted(turn.get('prompt') or '', 1200)}")
        if turn["number"] == str(first).lstrip("0") or len(out) == _LEFT:
            break
    return out[::-1]
