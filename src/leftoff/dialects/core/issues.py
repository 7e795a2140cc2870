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
    found = []
    for key, about in state.of("error").items():
        if isinstance(about, dict):
            number = about.get(NUMBER)
            known = {name: value for name, value in about.items() if name != NUMBER}
            entry = known["message"] if list(known) == ["message"] else known
        else:
            number, entry = None, about
        place = number if isinstance(number, int) else 1 << 30
        found.append((place, key, entry))
    return [entry for _, _, entry in sorted(found, key=lambda item: item[:2])]
