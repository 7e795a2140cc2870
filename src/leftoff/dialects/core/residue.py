"""What a document says in its own way: kept in `extra`, and written again as it was.

Decoding maps a document onto records, encoding maps records onto the canonical document. Where those two differ, the
difference is the residue: keys that the dialect does not know, values written in another form, keys that are left out,
the order of keys. It is found by comparing, not by each dialect looking for it, so nothing can be forgotten: patching
the canonical document with its residue gives the document that was read, whatever it was.

A residue that stands for a known value remembers what the canonical document had in its place (``was``), and holds only
while that is still so: once a run goes on, its new values are written in the canonical way.
"""

from __future__ import annotations

from leftoff.model.hashing import sha256
from leftoff.model.ids import MAX_KEY
from leftoff.model.words import AS_WRITTEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    Path = tuple[str, ...]

WRITTEN, ORDER = AS_WRITTEN
_LONG = 200
_NONE: Any = object()


def same(left: Any, right: Any) -> bool:
    """Equal as JSON: ``1``, ``1.0`` and ``true`` are three values; the order of keys does not count."""
    if left is right:
        return True
    if isinstance(left, dict) and isinstance(right, dict):
        if left.keys() != right.keys():
            return False
        for key, item in left.items():
            other = right[key]
            if item is not other and not same(item, other):
                return False
        return True
    if isinstance(left, list) and isinstance(right, list):
        if len(left) != len(right):
            return False
        for item, other in zip(left, right, strict=True):
            if item is not other and not same(item, other):
                return False
        return True
    return type(left) is type(right) and bool(left == right)


def is_residue(key: str) -> bool:
    """Whether a key of `extra` stands for the way a document is written."""
    return key.startswith(AS_WRITTEN)


def residue(
    canonical: dict[str, Any], document: dict[str, Any], derived: dict[str, tuple[str, ...]] | None = None
) -> dict[str, Any]:
    """The records of `extra`, by key, that make the document out of the canonical one.

    ``derived``: of a value that is worked out, by its path, what it is worked out from: it holds while those are the
    same, too.
    """
    out: dict[str, Any] = {}
    _compare((), canonical, document, out)
    for key, others in (derived or {}).items():
        about = out.get(_written_key(tuple(key.split("/"))))
        if about is not None and "was" in about:
            about["of"] = {other: canonical.get(other) for other in others}
    return out


def _compare(path: Path, ours: dict[str, Any], theirs: dict[str, Any], out: dict[str, Any]) -> None:
    for key, value in theirs.items():
        here, mine = (*path, key), ours.get(key, _NONE)
        if isinstance(mine, dict) and isinstance(value, dict):
            _compare(here, mine, value, out)
        elif mine is _NONE:
            plain = _plain_key(here)
            if plain is not None:
                out[plain] = value
            else:
                out[_written_key(here)] = {"path": list(here), "as": value}
            _keep_order(here, value, out)
        elif not same(mine, value):
            out[_written_key(here)] = {"path": list(here), "was": mine, "as": value}
    for key in ours:
        if key not in theirs:
            here = (*path, key)
            out[_written_key(here)] = {"path": list(here), "was": ours[key], "gone": True}
    _compare_order(path, ours, theirs, out)


def _keep_order(path: Path, value: Any, out: dict[str, Any]) -> None:
    """Of what is kept as it is: the order of its keys, which is not stored with it."""
    for key, item in value.items() if isinstance(value, dict) else ():
        _keep_order((*path, key), item, out)
    if isinstance(value, dict) and list(value) != sorted(value):
        out[_key(ORDER, path)] = {"path": list(path), "keys": list(value)}


def _compare_order(path: Path, ours: dict[str, Any], theirs: dict[str, Any], out: dict[str, Any]) -> None:
    kept = [key for key in ours if key in theirs]
    if list(theirs) != kept + sorted(key for key in theirs if key not in ours):
        out[_key(ORDER, path)] = {"path": list(path), "keys": list(theirs)}


def _plain_key(path: Path) -> str | None:
    """The key of an unknown entry, where its path can be one as it is."""
    parts = [part for part in path if part and "/" not in part and "%" not in part and "\0" not in part]
    key = "/".join(path)
    if len(parts) != len(path) or len(key) > _LONG or is_residue(key):
        return None
    return key


def _written_key(path: Path) -> str:
    return _key(WRITTEN, path)


def _key(prefix: str, path: Path) -> str:
    key = prefix + "/".join(path).replace("\0", "%00")
    if len(key) <= _LONG < MAX_KEY:
        return key
    return f"{prefix}…{sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def patch(canonical: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    """The document: canonical, with what `extra` says of the way it is written."""
    document: dict[str, Any] = _copy(canonical)
    edits: list[dict[str, Any]] = []
    orders: list[dict[str, Any]] = []
    for key, value in extra.items():
        if not is_residue(key):
            edits.append({"path": key.split("/"), "as": value})
        elif isinstance(value, dict) and isinstance(value.get("path"), list):
            (orders if key.startswith(ORDER) else edits).append(value)
    for value in sorted(edits, key=_place):
        _apply(document, value, canonical)
    for value in orders:
        _put_in_order(document, value)
    return document


def _place(about: dict[str, Any]) -> list[str]:
    return list(map(str, about["path"]))


def _holds(others: Any, canonical: dict[str, Any]) -> bool:
    return not isinstance(others, dict) or all(same(canonical.get(key), was) for key, was in others.items())


def _apply(document: dict[str, Any], about: dict[str, Any], canonical: dict[str, Any]) -> None:
    path = about["path"]
    inside = _reach(document, path[:-1]) if path else None
    if not isinstance(inside, dict):
        return
    last = path[-1]
    if "was" not in about:
        inside.setdefault(last, about.get("as"))
    elif last in inside and same(inside[last], about["was"]) and _holds(about.get("of"), canonical):
        if about.get("gone"):
            del inside[last]
        else:
            inside[last] = about.get("as")


def _put_in_order(document: dict[str, Any], about: dict[str, Any]) -> None:
    """Keys as they were; those that were not there before come after the one they follow in the canonical order."""
    inside = _reach(document, about["path"])
    keys = about.get("keys")
    if not isinstance(inside, dict) or not isinstance(keys, list):
        return
    order = [key for key in keys if key in inside]
    known, before = set(order), ""
    for key in list(inside):
        if key not in known:
            order.insert(order.index(before) + 1 if before in order else len(order), key)
        before = key
    items = {key: inside[key] for key in order}
    inside.clear()
    inside.update(items)


def _reach(document: Any, path: Sequence[Any], default: Any = None) -> Any:
    for part in path:
        if not isinstance(document, dict) or part not in document:
            return default
        document = document[part]
    return document


def renewed(
    document: dict[str, Any], base: dict[str, Any], worked_out: dict[str, Any], keys: Iterable[str]
) -> dict[str, Any]:
    """The document, with those of its values that nobody touched since ``base`` as they are worked out by now."""
    out: dict[str, Any] = _copy(document)
    for key in keys:
        *outer, last = key.split("/")
        inside, before = _reach(out, outer), _reach(base, [*outer, last], _NONE)
        if isinstance(inside, dict) and last in inside and before is not _NONE and same(inside[last], before):
            inside[last] = _reach(worked_out, [*outer, last])
    return out


def _copy(value: Any) -> Any:
    """Containers anew, whatever stands for a redacted entry as it is."""
    if type(value) is dict:
        return {key: _copy(item) for key, item in value.items()}
    if type(value) is list:
        return [_copy(item) for item in value]
    return value
