"""Trust, which a person gives once, and to content: what a project's settings would run, or lead outside of it.

A repository that somebody cloned may be read, and no more. What its `leftoff.toml` names to run, or to write elsewhere,
is left out until its user has seen it and said yes. That is remembered in the user's own folder, one file for each
setting, named by the hash of the project's folder and what the setting says: changed, it is asked for again. A file
there that says something else than its name does is no yes.
"""

from __future__ import annotations

import os

from leftoff.engine.config.caller import CALLER
from leftoff.errors import StoreUnavailable
from leftoff.model.fields import Fields
from leftoff.store import folder_of, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

RUNS, LEADS, SENDS = "runs a command", "leads outside of the project", "sends what happens elsewhere"
THEIRS = "belongs to another user"
LINK = ".leftoff"  # the setting that a link in the place of the store's folder, or in it, is
HOW = "`leftoff trust` shows it and asks. Where nobody can be asked: --trust, or LEFTOFF_TRUST=1."
_OTHERS = (".git", ".leftoff")  # folders below a project that are not for its settings to write to
_SIZE = 1 << 20  # more is in no file of ours
_KEY = 32  # bytes


class Item(Fields):
    """One setting that needs trust: its key, what it says, and what that does. ``target``: where it leads."""

    key: str
    value: str
    does: str
    target: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"key": self.key, "value": self.value, "does": self.does, "target": self.target or None}


# -- what needs it


def items_of(folder: str, tables: Mapping[str, Any]) -> list[Item]:
    """What in the settings of a project would run or lead outside; what is no text does nothing but fail."""
    found = [
        *_command("issues.command", tables.get("issues", {}).get("command")),
        *_command("issues.update", tables.get("issues", {}).get("update")),
        *_command("supervise.command", tables.get("supervise", {}).get("command")),
        *(
            Item(f"agents.{name}.{key}", _text(value), RUNS)
            for name, about in tables.get("agents", {}).items()
            for key, value in (about.items() if isinstance(about, dict) else ())
        ),
        *_path(folder, "store", tables.get("store")),
        *_path(folder, "blobs", tables.get("blobs")),
        *_path(folder, "status.file", tables.get("status", {}).get("file")),
        *_path(folder, "issues.file", tables.get("issues", {}).get("file")),
    ]
    url = tables.get("supervise", {}).get("url")
    return [*found, Item("supervise.url", url, SENDS)] if isinstance(url, str) else found


def file_items(path: str) -> list[Item]:
    """A file of settings that belongs to another user, as one in a folder above may that several share: it could have
    records written where they read them, without redaction."""
    from leftoff.files import stranger

    owner = stranger(path)
    return [Item(os.path.basename(path), f"user {owner}", THEIRS, path)] if owner is not None else []


def store_items(folder: str, store: str = LINK) -> list[Item]:
    """A link in the place of the store's folder that leads outside of the project, or a folder of somebody else, who
    would have what is kept there; else every link that lies in it, for it is written through."""
    path = os.path.join(folder, store)
    target = outside(folder, store, own=True) if os.path.islink(path) else ""
    if target:
        return [Item(store, os.readlink(path), LEADS, target)]
    if not os.path.isdir(path):
        return []
    from leftoff.files import links_in, stranger

    owner = stranger(path)
    if owner is not None:
        return [Item(store, f"user {owner}", THEIRS, path)]
    inside = [(f"{store}/{name}", os.path.join(path, name)) for name in sorted(links_in(path))]
    return [Item(key, os.readlink(link), LEADS, os.path.realpath(link)) for key, link in inside]


def without(tables: Mapping[str, Any], items: Sequence[Item]) -> dict[str, Any]:
    """The settings without these."""
    left = dict(tables)
    for item in items:
        section, _, key = item.key.partition(".")
        if not key:
            left.pop(section, None)
            continue
        name = key.rpartition(".")[0] if section == "agents" else key  # an agent goes as a whole
        left[section] = {own: value for own, value in left[section].items() if own != name}
    return left


def _command(key: str, value: Any) -> list[Item]:
    return [Item(key, value, RUNS)] if isinstance(value, str) else []


def _path(folder: str, key: str, value: Any) -> list[Item]:
    if not isinstance(value, str) or "\0" in value:
        return []
    path = folder_of(value)
    if path is None:
        return [Item(key, shown(value), LEADS, shown(value))]
    target = outside(folder, path, own=key == "store")
    return [Item(key, value, LEADS, target)] if target else []


def outside(folder: str, path: str, *, own: bool = False) -> str:
    """Where a path leads, links followed, if that is no place of the project's; ``own``: its store's folder is one."""
    base, real = os.path.realpath(folder), os.path.realpath(os.path.join(folder, path))
    below = os.path.relpath(real, base).split(os.sep)
    taboo = _OTHERS[:1] if own else _OTHERS
    named = {part.lower() for part in below}  # a file system may not care
    return real if below[0] == ".." or not named.isdisjoint(taboo) else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


# -- what was trusted


def not_trusted(folder: str, items: Sequence[Item]) -> list[Item]:
    """Those that nobody has said yes to."""
    if not items or CALLER.trusts(folder):
        return []
    return [item for item in items if not _is_trusted(folder, item)]


def told(folder: str, items: Sequence[Item]) -> str:
    """What is left out, and what to do about it."""
    shown = ", ".join(f"{_shown(item.key)} ({item.does})" for item in items)
    damaged = [path for item in items if os.path.lexists(path := _path_of(folder, item))]
    why = f"leftoff: {damaged[0]} is damaged, or not yours alone: it is ignored.\n" if damaged else ""
    theirs = next((item for item in items if item.does == THEIRS), None)
    if theirs is not None:
        return f"{why}leftoff: {theirs.target} {THEIRS} ({theirs.value}), so it is not used.\n{HOW}"
    return f"{why}leftoff: leftoff.toml is not trusted, so it is used without {shown}.\n{HOW}"


def _shown(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


def _name(folder: str, item: Item) -> str:
    from leftoff.model.hashing import sha256

    about = repr((os.path.realpath(folder), item.key, item.value, item.target))
    return sha256(about.encode("utf-8", "surrogateescape")).hexdigest()


def _path_of(folder: str, item: Item) -> str:
    return os.path.join(CALLER.user_folder, "trust", _name(folder, item))


def _is_trusted(folder: str, item: Item) -> bool:
    path = _path_of(folder, item)
    known = _read(path)
    return known is not None and _says(known, path) == (os.path.realpath(folder), item)


def _says(data: bytes, path: str) -> tuple[str, Item] | None:
    """What a file of ours says; ``None`` where it is damaged: then it says nothing."""
    import json

    try:
        about = json.loads(data)
        folder = str(about["project"])
        item = Item(*(str(about[key]) for key in ("key", "value", "does", "target")))
    except (ValueError, TypeError, KeyError):
        return None
    return (folder, item) if _name(folder, item) == os.path.basename(path) else None


def _read(path: str) -> bytes | None:
    """A file of the user's own; what belongs to others, or others may write to, is as good as none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        info = os.fstat(fd)
        own = info.st_uid == os.geteuid() and not info.st_mode & 0o022 and info.st_mode >> 12 == 0o10
        return os.read(fd, _SIZE) if own else None
    finally:
        os.close(fd)


def remember(folder: str, item: Item, at: str) -> None:
    """A person said yes."""
    import json

    about = {"project": os.path.realpath(folder), **item.to_json(), "target": item.target, "at": at}
    data = json.dumps(about, ensure_ascii=True).encode()
    _write(_path_of(folder, item), data)


def _write(path: str, data: bytes) -> None:
    """Whole or not at all, for nobody else to read."""
    folder, part = os.path.dirname(path), f"{path}.{os.getpid()}.part"
    try:
        os.makedirs(CALLER.user_folder, mode=0o700, exist_ok=True)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(part, path)
    except OSError as error:
        raise StoreUnavailable(
            f"{path} cannot be written: {error.strerror}.",
            hint="What you trust is kept in your own folder (XDG_STATE_HOME); LEFTOFF_TRUST=1 trusts this time.",
        ) from None


class Remembered(Fields):
    """What was trusted, and in which file that is kept; no ``item``: that file is damaged."""

    path: str
    project: str
    item: Item | None

    def to_json(self) -> dict[str, Any]:
        if self.item is None:
            return {"path": self.path, "damaged": True}
        return {"path": self.path, "project": self.project, **self.item.to_json()}


def remembered() -> list[Remembered]:
    """All that this user trusted, and what is damaged of it."""
    folder = os.path.join(CALLER.user_folder, "trust")
    found = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        if name.endswith(".part"):
            continue
        known = _says(_read(path) or b"", path)
        found.append(Remembered(path, known[0] if known else "", known[1] if known else None))
    return found


def forget(known: Remembered) -> None:
    """It is not trusted any more."""
    try:
        os.unlink(known.path)
    except FileNotFoundError:
        pass


# -- what proves that something was made by this user


def signer(*, make: bool = False) -> Callable[[str], str] | None:
    """What puts a mark under a text that only this user can; ``None`` where there is no key, nor can be one.

    ``make``: the key is made where there is none.
    """
    path = os.path.join(CALLER.user_folder, "key")
    key = _read(path)
    if key is None and make:
        try:
            _write_first(path, os.urandom(_KEY))
        except (OSError, StoreUnavailable):
            return None
        key = _read(path)
    if key is None or len(key) != _KEY:
        return None
    import hmac

    return lambda text: hmac.new(key, text.encode(), "sha256").hexdigest()


def _write_first(path: str, data: bytes) -> None:
    """Where several try at once, the first one's stays."""
    part = f"{path}.{os.urandom(4).hex()}"
    _write(part, data)
    try:
        os.link(part, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(part)
