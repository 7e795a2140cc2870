"""Where work happens: the project's folder, its settings, its store, its git branch.

``Project`` is what every face works in, for the length of one call (in a Python program, for as long as it likes).
Opening its store imports what others did to the files of a protocol that the project follows. Closing it updates the
page that follows the store.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from leftoff import seams
from leftoff import store as stores
from leftoff.clock import SYSTEM, Clock
from leftoff.engine.git import git_facts, main_worktree, upward
from leftoff.engine.settings import (
    CALLER,
    FILE,
    HOW,
    UNKNOWN,
    Settings,
    know_store,
    load,
    not_trusted,
    outside,
    say_untrusted,
    store_items,
)
from leftoff.errors import NeedsPerson, NoCheckpoint, NotFound, StoreUnavailable, Usage
from leftoff.files import SWEPT, is_due
from leftoff.host import debug
from leftoff.store.rows import RunRow

if TYPE_CHECKING:
    from leftoff.engine.redactor import Redactor
    from leftoff.engine.tracking import Workspace
    from leftoff.store.base import SqlStore, View

FOLDER = ".leftoff"
STORES = "stores"  # in the user's own folder: facts of this machine about stores on servers
_told: set[tuple[str, str]] = set()  # notices about settings that are not used


def say_on_stderr(text: str) -> None:
    """Print to stderr, for callers without a face."""
    print(text, file=sys.stderr)


# -- the folder


def find_project(start: str | None = None, given: str | None = None) -> str:
    """Return the folder of the project: as given, as LEFTOFF_PROJECT says, else the nearest folder upward that has a
    store, settings or a `.git`, else the current folder. A git root ends the search: a repository inside another
    project and a linked worktree are separate projects."""
    chosen = given or CALLER.project
    if chosen:
        if not os.path.isdir(chosen):
            is_file = os.path.exists(chosen)
            wrong = f"{chosen} is a file, not a folder." if is_file else f"There is no folder {chosen}."
            source = "" if given else "LEFTOFF_PROJECT names it. "
            raise Usage(wrong, hint=f"{source}Name the folder of a project that is there.")
        return os.path.abspath(chosen)
    here = os.path.abspath(start or os.getcwd())
    return next(filter(is_project, upward(here)), here)


def is_project(folder: str) -> bool:
    """Return whether a folder has a store, settings or a `.git`."""
    path = folder.rstrip(os.sep) + os.sep
    return os.path.isdir(path + FOLDER) or os.path.exists(path + FILE) or os.path.exists(path + ".git")


def in_git(folder: str) -> bool:
    """Return whether a folder is in a git repository, without starting git."""
    return any(os.path.exists(os.path.join(above, ".git")) for above in upward(folder))


def home_of(card: dict[str, Any], project: str, folder: str) -> str:
    """Return where a run's files are: the linked work tree that it remembers; else the main one, seen from a
    linked one without a store. ``folder``: the store's. If the work tree is gone, the files are here."""
    own, main = card.get("worktree"), main_worktree(project)
    if isinstance(own, str):  # a run that came from elsewhere may name any folder as its own
        theirs = main_worktree(own) if os.path.isdir(own) else ""
        return own if theirs and os.path.realpath(theirs) == os.path.realpath(main or project) else project
    return main if main and folder == os.path.join(main, FOLDER) else project


# -- the store


def store_location(project: str, given: str | None = None, configured: str | None = None) -> str:
    """Return a folder or URL: as given, LEFTOFF_STORE, leftoff.toml, the project's own, a worktree's main one.

    Raise ``NeedsPerson`` if the store came along with a repository, or leads outside of the project.
    """
    chosen = given or CALLER.store
    if chosen:
        return absolute(chosen)
    folder = stores.folder_of(configured) if configured else None
    if configured and folder is None:
        return configured
    home, store = store_home(project, folder)
    location = os.path.join(home, store)
    # Settings that name a store outside of the project are read only if they are trusted.
    leads_out = folder and not os.path.islink(location) and outside(project, folder, own=True)
    for item in [] if leads_out or CALLER.trusts(project) else not_trusted(home, store_items(home, store)):
        where = os.path.join(home, item.key)
        if item.does == UNKNOWN:
            raise NeedsPerson(f"The store {where} was not created here, and is not trusted.", hint=HOW)
        raise NeedsPerson(
            f"{where} is a link that leads outside of the project or the store, and not trusted: {item.target}.",
            hint=HOW,
        )
    return location


def store_home(project: str, configured: str | None = None) -> tuple[str, str]:
    """Return the work tree that a project's store is in, and its path there: the project's own, or a linked one's main
    one. ``configured``: the folder that the settings name."""
    own = os.path.join(project, FOLDER)
    if configured or os.path.isdir(own) or os.path.islink(own):
        return project, configured or FOLDER
    return main_worktree(project) or project, FOLDER


def absolute(location: str) -> str:
    """Return a store's location that means the same from every folder."""
    folder = stores.folder_of(location)
    return location if folder is None else os.path.abspath(folder)


def open_store_at(location: str, clock: Clock | None = None) -> SqlStore:
    """Return a store by its folder or URL. Nothing is created before the first write."""
    store = stores.open_store(location, _machine_folder(), clock)

    def created(store_id: str) -> None:
        try:
            know_store(os.path.dirname(absolute(location)), store_id)
        except StoreUnavailable as error:  # a store that is named explicitly works without the mark
            debug("a store that was named: %s", error)

    store.created = created
    return store


def local_folder(location: str) -> str:
    """Return ``Store.folder`` of a store by its folder or URL, without opening it."""
    return stores.local_store_folder(location, _machine_folder())


def _machine_folder() -> str:
    return os.path.join(CALLER.user_folder, STORES)


# -- the project


class Project:
    """One folder, for the length of one call. ``store``: its location, if it was named. ``say``: gets what could not be
    done next to the work."""

    def __init__(
        self,
        folder: str,
        store: str | None = None,
        say: Callable[[str], None] = say_on_stderr,
        clock: Clock = SYSTEM,
    ) -> None:
        self.folder = folder
        self.say = say
        self.clock = clock
        self.at = clock.now()  # when the call began
        # Whether to drain waiting hook events, and import edits of a protocol's files, before the first read.
        self.takes_in_edits = True
        self._given = store
        self._settings: Settings | None = None
        self._store: SqlStore | None = None

    @property
    def now(self) -> int:
        return self.clock.now()

    @property
    def settings(self) -> Settings:
        if self._settings is None:
            self._settings = load(self.folder)
            if self._settings.untrusted:
                text = say_untrusted(self._settings.untrusted)
                if (self.folder, text) not in _told:  # once in the life of a process
                    _told.add((self.folder, text))
                    self.say(text)
        return self._settings

    def forget_settings(self) -> None:
        """Read the settings again, and open the store as they say: they were changed."""
        self._settings = None
        if self._store is not None:
            self._store.close()
            self._store = None

    @property
    def redactor(self) -> Redactor:
        return self.settings.redactor()

    @property
    def limits(self) -> tuple[int, int]:
        """After how many milliseconds without a sign of life a run is quiet, and stalled."""
        beat = self.settings.heartbeat
        return int(beat.quiet * 1000), int(beat.stalled * 1000)

    @property
    def store(self) -> SqlStore:
        if self._store is None:
            settings = self.settings
            location = store_location(self.folder, self._given, settings.store)
            store = open_store_at(location, self.clock)
            if settings.section("protocol"):  # it keeps the protocol's files in step
                store = seams.follow(store, self.folder, settings, self.clock.now, self.say)
            self._store = store
            if self._given is None and CALLER.store is None and not CALLER.trusts(self.folder):
                store.created = lambda store_id: know_store(os.path.dirname(location), store_id)
            if location == CALLER.store != store.location:
                CALLER.pass_on_store(store.location)
            told = CALLER.lock_timeout
            store.patience = settings.lock_timeout if told is None else told
            if self.takes_in_edits:
                folder = local_folder(location)
                if os.path.isdir(os.path.join(folder, "spool")):
                    seams.drain_before_reading(self, folder)
                self.take_in_edits()
        return self._store

    def take_in_edits(self) -> None:
        """Import what others did to the files of the protocol that the project follows."""
        if self.store.follower is not None:
            self.store.follower.look()
        elif not (self.store.shared or self.store.exists()):
            self.point_out()

    def need_store(self) -> None:
        """Raise ``NotFound`` if there is no store. The hint names the files of a protocol, if there are any."""
        if not self.store.exists():
            from leftoff.engine.find import need_store

            self.point_out()
            need_store(self.store)

    def explain(self, error: NotFound, view: View | None = None) -> NotFound:
        """Return an error that says why no run is found here: the files of a protocol may be there that leftoff has not
        imported. ``view``: that of the transaction, if it is still open."""
        if not isinstance(error, NoCheckpoint):  # otherwise the run is there
            self.point_out(view)
            error.hint = self.store.advice or error.hint
        return error

    def point_out(self, view: View | None = None) -> None:
        """If there is no run, name the files of a protocol that are here and not imported, once."""
        store = self.store
        if store.advice or store.follower is not None:
            return
        if store.exists():
            runs = view.list_runs({}, 1) if view is not None else store.read(lambda v: v.list_runs({}, 1))
            if runs:
                return
        seams.point_out(self)

    @property
    def store_folder(self) -> str:
        """The folder next to the store: logs of steps, the spool."""
        return self.store.folder

    def move_to_worktree(self, row: RunRow) -> None:
        """Change the folder to where the run's files are: a run keeps to its own work tree."""
        there = self.seen_from(row)
        self.folder, self._settings = there.folder, there._settings

    def seen_from(self, row: RunRow) -> Project:
        """Return the same project in the work tree that a run keeps to, to look at its files."""
        home = home_of(row.card, self.folder, self.store.folder)
        if home == self.folder:
            return self
        self.say(f"leftoff: {row.run_id} belongs to the work tree {home}.")
        return self.elsewhere(home, self.say)

    def elsewhere(self, folder: str, say: Callable[..., None]) -> Project:
        """Return the project as seen from a folder that has the same store. ``say``: gets the problems there."""
        there = Project(folder, self._given, say, self.clock)
        there._store = self.store
        if folder == self.folder:
            there._settings = self.settings
        return there

    def git_facts(self) -> dict[str, Any]:
        """Return what a new run remembers of git."""
        return git_facts(self.folder)

    def surroundings(self, issue: str | None, branch: str | None) -> dict[str, Any]:
        """Return what a new run remembers of the world around it: what is not committed, and its issue."""
        from leftoff.engine.git import DIRTY, dirty_paths

        dirty = dirty_paths(self.folder)
        known: dict[str, Any] = {DIRTY: dirty} if dirty is not None else {}
        return known | self.issue_snapshot(issue, branch)

    def issue_snapshot(self, issue: str | None, branch: str | None) -> dict[str, Any]:
        """Return an issue as its tracker has it now, as `context` records. ``branch``: git's, of the run."""
        if not issue:
            return {}
        from leftoff.engine.issue_tracker import take_issue

        return take_issue(self.settings, self.folder, issue, branch, self.now)

    def workspace(self, at: int | None = None, redactor: Redactor | None = None) -> Workspace:
        """Return the project's files as they are now. ``at``: the moment that records of them name."""
        from leftoff.engine.tracking import Workspace

        at = self.now if at is None else at
        redactor = redactor or self.redactor
        return Workspace(self.store, self.folder, redactor, self.settings.files, at, self.say)

    def close(self, *, soon: bool = True) -> None:
        """End the call. ``soon``: another process will use the store at once."""
        if self._store is not None:
            if self._store.wrote:
                self.tidy()
            self._store.close(soon=soon)

    def tidy(self) -> None:
        """Remove what is due: blobs after their grace, the rest once a day. Two names tell whether anything is."""
        assert self._store is not None
        folder = self._store.folder
        if os.path.exists(f"{folder}/trash") or is_due(f"{folder}/{SWEPT}", self.now):
            from leftoff.engine.run_states import tidy_store

            tidy_store(self)
