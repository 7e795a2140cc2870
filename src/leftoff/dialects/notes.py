"""Notes as one text: several of ours are joined by line breaks, and what is added behind them is a note of its own."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.dialects.draft import Draft, State

WRITTEN = "written"  # the key of a note that was in the document


def encode_notes(state: State) -> str:
    return "\n".join(text_of(value) for value in state.of("note").values())


def text_of(value: object) -> str:
    if isinstance(value, dict):
        value = value.get("text", "")
    return value if isinstance(value, str) else ""


def decode_notes(draft: Draft, text: str | None) -> None:
    """Notes that are known and still there stay what they are."""
    if not text:
        return
    known = draft.known.of("note") if draft.known is not None else {}
    joined = "\n".join(text_of(value) for value in known.values())
    if known and (text == joined or text.startswith(joined + "\n")):
        for key, value in known.items():
            draft.put("note", key, value)
        text = text[len(joined) + 1 :]
    if text:
        draft.put_free("note", WRITTEN, {"text": text})
