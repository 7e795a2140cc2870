"""Trust: which stores this user knows, and which settings of a project may run commands or lead outside of it.

A store counts as known if a user created it here or trusted it. The mark is a file named after the store's id.
It is in the git common folder (`.git/leftoff/ID`): no clone brings that along, and every container that shares the
checkout sees it. Without git it is in the user's own folder. A store that is named explicitly needs no mark.

A setting of `leftoff.toml` that would run a command or lead outside of the project is left out until the user has seen
it and said yes. That is stored in the user's own folder, one file per setting, named by the hash of the project's
folder and of what the setting says. A setting that changed is asked about again.
"""

from __future__ import annotations

import os

from leftoff.engine.config.caller import CALLER
from leftoff.errors import StoreUnavailable
from leftoff.files import ID_FILE, STORE_FILE, failure, links_in, open_plain
from leftoff.model.fields import Fields
from leftoff.store import folder_of, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

RUNS, LEADS, SENDS = "runs a command", "leads outside of the project", "sends what happens elsewhere"
UNKNOWN = "was not created here"
HOW = "`leftoff trust` shows it and asks. Where nobody can be asked: --trust, or LEFTOFF_TRUST=1."
_OTHERS = (".git", ".leftoff")  # folders below a project that its settings must not write to
_LARGEST = 1 << 20  # bytes of a file that we wrote


class Item(Fields):
    """Something that needs trust: its key, what it says, and what that does. ``target``: where it leads."""

    key: str
    value: str
    does: str
    target: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"key": self.key, "value": self.value, "does": self.does, "target": self.target or None}


# -- settings


def items_of(folder: str, tables: Mapping[str, Any]) -> list[Item]:
    """Return the settings of a project that would run something or lead outside."""
    issues, supervise = tables.get("issues", {}), tables.get("supervise", {})
    commands = {
        "issues.command": issues.get("command"),
        "issues.update": issues.get("update"),
        "supervise.command": supervise.get("command"),
    }
    found = [Item(key, value, RUNS) for key, value in commands.items() if isinstance(value, str)]
    for name, about in tables.get("agents", {}).items():
        for key, value in about.items() if isinstance(about, dict) else ():
            found.append(Item(f"agents.{name}.{key}", value if isinstance(value, str) else repr(value), RUNS))
    paths = {
        "store": tables.get("store"),
        "blobs": tables.get("blobs"),
        "status.file": tables.get("status", {}).get("file"),
        "issues.file": issues.get("file"),
    }
    for key, value in paths.items():
        if not isinstance(value, str) or "\0" in value:
            continue
        path = folder_of(value)
        target = shown(value) if path is None else outside(folder, path, own=key == "store")
        if target:
            found.append(Item(key, shown(value) if path is None else value, LEADS, target))
    url = supervise.get("url")
    return [*found, Item("supervise.url", url, SENDS)] if isinstance(url, str) else found


def without(tables: Mapping[str, Any], items: Sequence[Item]) -> dict[str, Any]:
    """Return the settings without these."""
    left = dict(tables)
    for item in items:
        section, _, key = item.key.partition(".")
        if not key:
            left.pop(section, None)
            continue
        name = key.rpartition(".")[0] if section == "agents" else key  # an agent goes as a whole
        left[section] = {own: value for own, value in left[section].items() if own != name}
    return left


def outside(folder: str, path: str, *, own: bool = False) -> str:
    """Return where a path leads, links followed, if that is not a place of the project. ``own``: it is the store's."""
    base, real = os.path.realpath(folder), os.path.realpath(os.path.join(folder, path))
    below = os.path.relpath(real, base).split(os.sep)
    taboo = _OTHERS[:1] if own else _OTHERS
    named = {part.lower() for part in below}  # a file system may ignore case
    return real if below[0] == ".." or not named.isdisjoint(taboo) else ""


# -- stores


def store_items(home: str, store: str) -> list[Item]:
    """Return what needs trust before the store of a project is opened. ``store``: its path in the work tree ``home``.

    That is a link in its place that leads outside, a store that this user does not know, or links in a folder in which
    a store would be created: it would be written through them.
    """
    path = os.path.join(home, store)
    if os.path.islink(path):
        target = outside(home, store, own=True)
        return [Item(store, os.readlink(path), LEADS, target)] if target else []
    if not os.path.isdir(path):
        return []
    if os.path.lexists(os.path.join(path, STORE_FILE)):
        store_id = id_of(path)
        return [] if _marks(os.path.dirname(path), store_id) else [Item(store, store_id, UNKNOWN, path)]
    try:
        links = [(f"{store}/{name}", os.path.join(path, name)) for name in sorted(links_in(path))]
    except OSError as error:
        raise failure(error, path) from None
    return [Item(key, os.readlink(link), LEADS, os.path.realpath(link)) for key, link in links]


def id_of(folder: str) -> str:
    """Return the id of the store in a folder, as the file beside the database says; empty if there is none."""
    try:
        with open(open_plain(os.path.join(folder, ID_FILE), os.O_NOFOLLOW), encoding="ascii") as file:
            found = file.read(64).strip()
    except (OSError, ValueError):
        return ""
    return found if len(found) == 32 and not set(found) - set("0123456789abcdef") else ""


def know_store(home: str, store_id: str, *, trusted: bool = False) -> None:
    """Mark a store as known. ``home``: the folder that its folder is in. ``trusted``: it was not created here.

    Raise ``StoreUnavailable`` if the mark cannot be written anywhere.
    """
    problem: OSError | None = None
    for folder in _mark_folders(home):
        try:
            _make_private(folder)
            mark = os.open(os.path.join(folder, store_id), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with open(mark, "wb") as file:
                file.write(b"trusted\n" if trusted else b"")
            return
        except OSError as error:
            problem = error
    assert problem is not None
    raise _cannot_write(os.path.join(folder, store_id), problem)


def forget_store(home: str, store_id: str) -> list[str]:
    """Remove the marks of a store that was trusted, not those of one that was created here. Return their paths."""
    marks = [path for path in _marks(home, store_id) if os.path.getsize(path)]
    for path in marks:
        os.unlink(path)
    return marks


def _marks(home: str, store_id: str) -> list[str]:
    if not store_id:
        return []
    return [path for folder in _mark_folders(home) if os.path.isfile(path := os.path.join(folder, store_id))]


def _mark_folders(home: str) -> list[str]:
    from leftoff.engine.config.git_head import common_folder

    git = common_folder(home)
    own = os.path.join(CALLER.user_folder, "known")
    return [os.path.join(git, "leftoff"), own] if git else [own]


# -- what was trusted


def not_trusted(folder: str, items: Sequence[Item]) -> list[Item]:
    """Return those that the user has not said yes to."""
    if not items or CALLER.trusts(folder):
        return []
    return [item for item in items if item.does == UNKNOWN or not _is_trusted(folder, item)]


def told(items: Sequence[Item]) -> str:
    """Say which settings are left out, and what to do about it."""
    keys = ", ".join(
        f"{''.join(c if c.isprintable() else '?' for c in item.key)} ({item.does})" for item in items
    )
    return f"leftoff: leftoff.toml is not trusted, so it is used without {keys}.\n{HOW}"


def remember(folder: str, item: Item, at: str) -> None:
    """Store that the user said yes."""
    import json

    about = {"project": os.path.realpath(folder), **item.to_json(), "target": item.target, "at": at}
    path = _path_of(folder, item)
    part = f"{path}.{os.getpid()}.part"
    try:
        _make_private(os.path.dirname(path))
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
            json.dump(about, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise _cannot_write(path, error) from None


def _make_private(folder: str) -> None:
    """Create a folder, and the one above it, for this user alone."""
    os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
    os.makedirs(folder, mode=0o700, exist_ok=True)


def _cannot_write(path: str, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(
        f"{path} cannot be written: {error.strerror}.",
        hint="What you trust is kept in .git or in your own folder (XDG_STATE_HOME); LEFTOFF_TRUST=1 trusts this time.",
    )


class Remembered(Fields):
    """What was trusted, and in which file that is stored. Without ``item`` the file is damaged."""

    path: str
    project: str
    item: Item | None

    def to_json(self) -> dict[str, Any]:
        if self.item is None:
            return {"path": self.path, "damaged": True}
        return {"path": self.path, "project": self.project, **self.item.to_json()}


def remembered() -> list[Remembered]:
    """Return every setting that this user trusted, and the files that are damaged."""
    folder = os.path.join(CALLER.user_folder, "trust")
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [_read(os.path.join(folder, name)) for name in names if not name.endswith(".part")]


def _read(path: str) -> Remembered:
    """Read a file of ours. One whose content does not match its name says nothing."""
    import json

    try:
        with open(open_plain(path, os.O_NOFOLLOW), encoding="utf-8") as file:
            about = json.loads(file.read(_LARGEST))
        project, item = (
            str(about["project"]),
            Item(*(str(about[key]) for key in ("key", "value", "does", "target"))),
        )
    except (OSError, ValueError, TypeError, KeyError):
        return Remembered(path, "", None)
    return Remembered(path, project, item if _path_of(project, item) == path else None)


def forget(known: Remembered) -> None:
    """Remove a yes."""
    if os.path.exists(known.path):
        os.unlink(known.path)


def _is_trusted(folder: str, item: Item) -> bool:
    found = _read(_path_of(folder, item))
    return (found.project, found.item) == (os.path.realpath(folder), item)


def _path_of(folder: str, item: Item) -> str:
    from leftoff.model.digest import sha256

    about = repr((os.path.realpath(folder), item.key, item.value, item.target))
    name = sha256(about.encode("utf-8", "surrogateescape")).hexdigest()
    return os.path.join(CALLER.user_folder, "trust", name)
