"""Notes as one text: several of ours are joined by line breaks, and what is added behind them is a note of its own."""

from __future__ import annotations

from leftoff.dialects.core.residue import is_residue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.dialects.core.draft import Draft, Records, State
    from leftoff.dialects.core.repairs import Repairs
    from leftoff.model.changes import Scrubber

WRITTEN = "written"  # in the key of a note that was in the document, behind its time: they are in that order


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
        draft.put_free("note", f"{draft.source.modified:015d}-{WRITTEN}", {"text": text})


def masked(records: Records, scrubber: Scrubber | None, repairs: Repairs) -> Records:
    """Notes are for people: of one that holds a secret, only that is left out. What is kept as it is written is kept
    under another name: it is judged by its own."""
    mask = getattr(scrubber, "mask", None)
    if mask is None:
        return records
    out = dict(records)
    for (collection, key), value in records.items():
        text = text_of(value) if collection == "note" else ""
        if text and mask(text) != text:
            out[collection, key] = {**value, "text": mask(text)} if isinstance(value, dict) else mask(text)
            repairs.add(f"note/{key} holds what looks like a secret, which is not stored.")
        elif collection == "extra" and is_residue(key) and isinstance(value, dict) and value.get("path"):
            name, said = str(value["path"][-1]), [word for word in ("as", "was") if word in value]
            clean = (
                {word: scrubber.scrub(name, value[word])[0] for word in said} if scrubber is not None else {}
            )
            if any(clean[word] is not value[word] for word in clean):
                out[collection, key] = {**value, **clean}
                repairs.add(
                    f"{'/'.join(map(str, value['path']))} holds what looks like a secret, which is not stored."
                )
    return out
