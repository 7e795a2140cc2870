"""Errors as a list: a bare text where nothing but a message is known, an object otherwise."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.core.draft import Draft, State

NUMBER = "number"  # where an entry stood in its list


def decode_issues(draft: Draft, entries: list[Any], name: str) -> None:
    """An entry that tells its step is that step's error; the others are counted."""
    for number, entry in enumerate(entries, 1):
        about = dict(entry) if isinstance(entry, dict) else {"message": entry}
        step = about.get("step")
        own = isinstance(step, str) and bool(step) and ("error", step) not in draft.records
        if not own:
            about[NUMBER] = number
        draft.put_free("error", str(step) if own else f"{name}-{number:03d}", about)


def encode_issues(state: State) -> list[Any]:
    return [_entry(about) for _, about in in_place(state.of("error"))]


def _entry(about: Any) -> Any:
    if not isinstance(about, dict):
        return about
    known = {name: value for name, value in about.items() if name != NUMBER}
    return known["message"] if list(known) == ["message"] else known


def in_place(records: dict[str, Any]) -> list[tuple[str, Any]]:
    """Entries where they stood in their list; those that stood in none come behind, by key."""

    def place(item: tuple[str, Any]) -> tuple[int, str]:
        number = item[1].get(NUMBER) if isinstance(item[1], dict) else None
        return (number if isinstance(number, int) else 1 << 30), item[0]

    return sorted(records.items(), key=place)
