"""Where work happens: the project's folder, its settings, its store, its git branch.

``Project`` is what every face works in, for the length of one call (or, in a Python program, as long as it wants).
Opening its store takes in what others did to the files of a protocol that the project follows; closing it brings the
page up to date that follows the store.
"""

from __future__ import annotations

import os
import sys

from leftoff import log, seams
from leftoff import store as stores
from leftoff.clock import SYSTEM
from leftoff.engine.config.caller import CALLER
from leftoff.errors import NeedsPerson, StoreUnavailable, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.clock import Clock
    from leftoff.engine.config.settings import Settings
    from leftoff.engine.config.trust import Item
    from leftoff.engine.redaction.redactor import Redactor
    from leftoff.engine.workspace.tracking import Workspace
    from leftoff.errors import NotFound
    from leftoff.store.base import Store, View
    from leftoff.store.rows import RunRow

FOLDER, SETTINGS = ".leftoff", "leftoff.toml"
STORES = "stores"  # in the user's own folder: what is a fact of this machine about stores on servers
_told: set[tuple[str, str]] = set()  # what was said of settings that are not used


def say(text: str) -> None:
    """Talk, for those who have nowhere else to."""
    print(text, file=sys.stderr)


def find_project(start: str | None = None, given: str | None = None) -> str:
    """Return the folder of the project: as given, as LEFTOFF_PROJECT says, else the nearest folder upward that has a
    store, settings or a `.git`, else the current folder. A git root ends the search: a repository inside another
    project and a linked worktree are projects of their own."""
    chosen = given or CALLER.project
    if chosen:
        if not os.path.isdir(chosen):
            wrong = (
                f"{chosen} is a file, not a folder."
                if os.path.exists(chosen)
                else f"There is no folder {chosen}."
            )
            source = "" if given else "LEFTOFF_PROJECT says so. "
            raise Usage(wrong, hint=f"{source}Name the folder of a project that is there.")
        return os.path.abspath(chosen)
    here = os.path.abspath(start or os.getcwd())
    folder = here
    while not is_project(folder):
        if (above := os.path.dirname(folder)) == folder:
            return here
        folder = above
    return folder


def is_project(folder: str) -> bool:
    """Return whether a folder has a store, settings or a `.git`."""
    path = folder.rstrip(os.sep) + os.sep
    return os.path.isdir(path + FOLDER) or os.path.exists(path + SETTINGS) or os.path.exists(path + ".git")


def store_location(project: str, given: str | None = None, configured: str | None = None) -> str:
    """A folder or URL: as given, LEFTOFF_STORE, leftoff.toml, the project's own, a worktree's main one."""
    chosen = given or CALLER.store
    if chosen:
        return absolute(chosen)
    folder = stores.folder_of(configured) if configured else None
    if configured and folder is None:
        return configured
    home, store = store_home(project, folder)
    if not CALLER.trusts(project) and not (folder and _leads_outside(project, folder)):
        _refuse_untrusted(home, store)
    return os.path.join(home, store)


def _leads_outside(project: str, folder: str) -> bool:
    """Return whether the settings name a store outside of the project: they do so only if they are trusted."""
    from leftoff.engine.config.trust import outside

    return not os.path.islink(os.path.join(project, folder)) and outside(project, folder, own=True) != ""


def store_home(project: str, configured: str | None = None) -> tuple[str, str]:
    """The work tree that a project's store is in, and its path there: the project's own, or a linked one's main one.
    ``configured``: the folder that the settings name."""
    own = os.path.join(project, FOLDER)
    if configured or os.path.isdir(own) or os.path.islink(own):
        return project, configured or FOLDER
    from leftoff.engine.config.git_head import main_worktree

    return main_worktree(project) or project, FOLDER


def absolute(location: str) -> str:
    """A store's location that means the same from every folder."""
    folder = stores.folder_of(location)
    return location if folder is None else os.path.abspath(folder)


def _refuse_untrusted(home: str, store: str) -> None:
    """Raise ``NeedsPerson`` if a store came along with a repository, or leads outside of the project."""
    from leftoff.engine.config.trust import HOW, UNKNOWN, not_trusted, store_items

    for item in not_trusted(home, store_items(home, store)):
        where = os.path.join(home, item.key)
        if item.does == UNKNOWN:
            raise NeedsPerson(f"The store {where} was not created here, and is not trusted.", hint=HOW)
        raise NeedsPerson(
            f"{where} is a link that leads outside of the project or the store, and not trusted: {item.target}.",
            hint=HOW,
        )


def open_store(location: str, clock: Clock | None = None, blobs: str | None = None) -> Store:
    """A store by its folder or URL. Nothing is created before the first write. ``blobs``: the folder that all machines
    share, where a store on a server keeps its blobs as files."""
    store = stores.open_store(location, _folders(), clock, blobs)
    store.created = lambda store_id: _know_created(location, store_id)
    return store


def _know_created(location: str, store_id: str) -> None:
    """Mark a store as known that was created now. One that was named explicitly can do without the mark."""
    from leftoff.engine.config.trust import know_store

    try:
        know_store(os.path.dirname(absolute(location)), store_id)
    except StoreUnavailable as error:
        log.debug("a store that was named: %s", error)


def local_folder(location: str) -> str:
    """``Store.folder`` of a store by its folder or URL, which is not opened for it."""
    return stores.local_folder(location, _folders())


def without_password(location: str) -> str:
    """What opens the same store, for other processes: a URL's password is in a private file of this machine then."""
    return stores.without_password(location, _folders())


def _folders() -> str:
    return os.path.join(CALLER.user_folder, STORES)


def blobs_folder(project: str, settings: Settings) -> str | None:
    """The folder that the settings name for the blobs of a store on a server."""
    return os.path.join(project, settings.blobs) if settings.blobs else None


def open_followed(
    project: str,
    location: str,
    settings: Settings,
    clock: Clock = SYSTEM,
    say: Callable[[str], None] = say,
) -> Store:
    """A project's store; where the project follows a protocol, its files are kept in step with it."""
    store = open_store(location, clock, blobs_folder(project, settings))
    if not settings.section("mirror"):
        return store
    followed: Store = seams.follow(store, project, settings, clock.now, say)
    return followed


def home_of(card: dict[str, Any], project: str, folder: str) -> str:
    """Where a run's files are: the linked work tree that it remembers; else the main one, seen from a linked one that
    has no store of its own. ``folder``: the store's. A work tree that is gone leaves us here."""
    from leftoff.engine.config.git_head import main_worktree

    own, main = card.get("worktree"), main_worktree(project)
    if isinstance(own, str):
        return own if os.path.isdir(own) and _is_ours(main_worktree(own), main or project) else project
    return main if main and folder == os.path.join(main, FOLDER) else project


def _is_ours(main: str, ours: str) -> bool:
    """Whether a work tree has this main one: a run that came from elsewhere may name any folder as its own."""
    return bool(main) and os.path.realpath(main) == os.path.realpath(ours)


def has_run(view: View) -> bool:
    """Whether there is any run at all."""
    return bool(view.list_runs({}, 1))


def in_git(folder: str) -> bool:
    """Whether a folder is in a git repository, without asking git."""
    from leftoff.engine.config.git_head import upward

    return any(os.path.exists(os.path.join(above, ".git")) for above in upward(folder))


class Project:
    """One folder, for the length of one call. ``store``: where it is, if somebody said; ``say``: who hears what could
    not be done beside the work."""

    def __init__(
        self,
        folder: str,
        store: str | None = None,
        say: Callable[[str], None] = say,
        clock: Clock = SYSTEM,
    ) -> None:
        self.folder = folder
        self.say = say
        self.clock = clock
        self.at = clock.now()  # when the call began
        # Whether waiting hook events, and what others did to the files of a protocol, are taken in first.
        self.takes_in_edits = True
        self._given = store
        self._settings: Settings | None = None
        self._store: Store | None = None

    @property
    def now(self) -> int:
        return self.clock.now()

    @property
    def is_store_given(self) -> bool:
        """Whether somebody said which store is meant."""
        return self._given is not None

    @property
    def settings(self) -> Settings:
        if self._settings is None:
            from leftoff.engine.config.settings import load

            self._settings = load(self.folder)
            if self._settings.untrusted:
                self._tell_untrusted(self._settings.untrusted)
        return self._settings

    def _tell_untrusted(self, items: tuple[Item, ...]) -> None:
        """Once in the life of a process."""
        from leftoff.engine.config.trust import told

        text = told(items)
        if (self.folder, text) not in _told:
            _told.add((self.folder, text))
            self.say(text)

    def forget_settings(self) -> None:
        """They were changed."""
        self._settings = None

    @property
    def redactor(self) -> Redactor:
        return self.settings.redactor()

    @property
    def limits(self) -> tuple[int, int]:
        """After how many milliseconds without a sign of life a run is quiet, and stalled."""
        beat = self.settings.heartbeat
        return int(beat.quiet * 1000), int(beat.stalled * 1000)

    @property
    def store(self) -> Store:
        if self._store is None:
            location = store_location(self.folder, self._given, self.settings.store)
            self._store = open_followed(self.folder, location, self.settings, self.clock, self.say)
            if self._given is None and CALLER.store is None and not CALLER.trusts(self.folder):
                from leftoff.engine.config.trust import know_store

                self._store.created = lambda store_id: know_store(os.path.dirname(location), store_id)
            if location == CALLER.store != self._store.location:
                CALLER.pass_on_store(self._store.location)
            self._be_patient()
            if self.takes_in_edits:
                folder = local_folder(location)
                if os.path.isdir(os.path.join(folder, "spool")):
                    seams.drain_before_reading(self, folder)
                self.take_in_edits()
        return self._store

    def _be_patient(self) -> None:
        """How long a write waits for other processes: as the environment says, or the settings."""
        store, told = self.store, CALLER.lock_timeout
        store.patience = self.settings.lock_timeout if told is None else told

    def take_in_edits(self) -> None:
        """What others did to the files of the protocol that the project follows is taken in."""
        if self.store.follower is not None:
            self.store.follower.look()
        elif not (self.store.far or self.store.exists()):
            self.point_out()

    def need_store(self) -> None:
        """An error where there is no store, which names the files of a protocol that lie here."""
        if not self.store.exists():
            from leftoff.engine.write.head import need_store

            self.point_out()
            need_store(self.store)

    def explain(self, error: NotFound, view: View | None = None) -> NotFound:
        """Return an error that says why no run is found here: the files of a protocol may be there that leftoff has not
        imported. ``view``: that of the transaction, if it is still open."""
        from leftoff.errors import NoCheckpoint

        if not isinstance(error, NoCheckpoint):  # otherwise the run is there
            self.point_out(view)
            error.hint = self.store.advice or error.hint
        return error

    def point_out(self, view: View | None = None) -> None:
        """Where there is no run, but files of a protocol lie that nobody took in: they are named, once."""
        store = self.store
        if store.advice or store.follower is not None:
            return
        if not store.exists() or not (has_run(view) if view is not None else store.read(has_run)):
            seams.point_out(self)

    @property
    def store_folder(self) -> str:
        """Where things are that lie beside the store: logs of steps, what waits to be restored."""
        return self.store.folder

    def move_to_worktree(self, row: RunRow) -> None:
        """From now on the folder is where the run's files are: a run keeps to its own work tree."""
        there = self.seen_from(row)
        self.folder, self._settings = there.folder, there._settings

    def seen_from(self, row: RunRow) -> Project:
        """The same project in the work tree that a run keeps to, to look at its files; this one stays where it is."""
        home = home_of(row.card, self.folder, self.store.folder)
        if home == self.folder:
            return self
        self.say(f"leftoff: {row.run_id} belongs to the work tree {home}.")
        return self.elsewhere(home, self.say)

    def elsewhere(self, folder: str, say: Callable[..., None]) -> Project:
        """Return the project as seen from a folder that has the same store. ``say``: who hears of problems there."""
        there = Project(folder, self._given, say, self.clock)
        there._store = self.store
        if folder == self.folder:
            there._settings = self.settings
        return there

    def git_facts(self) -> dict[str, Any]:
        """What a new run remembers of git."""
        from leftoff.engine.config.git_head import git_facts

        return git_facts(self.folder)

    def surroundings(self, issue: str | None, branch: str | None) -> dict[str, Any]:
        """What a new run remembers of the world around it: what is not committed, and its issue."""
        from leftoff.engine.workspace.git import DIRTY, dirty_paths

        dirty = dirty_paths(self.folder)
        known: dict[str, Any] = {DIRTY: dirty} if dirty is not None else {}
        return known | self.issue_snapshot(issue, branch)

    def issue_snapshot(self, issue: str | None, branch: str | None) -> dict[str, Any]:
        """An issue as its tracker has it now, as `context` records; ``branch``: git's, of the run that it is for."""
        if not issue:
            return {}
        from leftoff.engine.workspace.issue_tracker import take_issue

        return take_issue(self.settings, self.folder, issue, branch, self.now)

    def workspace(self, at: int | None = None, redactor: Redactor | None = None) -> Workspace:
        """The project's files as they are now. ``at``: the moment that records of them name."""
        from leftoff.engine.workspace.tracking import Workspace

        at = self.now if at is None else at
        redactor = redactor or self.redactor
        return Workspace(self.store, self.folder, redactor, self.settings.capture, at, self.say)

    def close(self, *, soon: bool = True) -> None:
        """The end of the call: pages that follow the store are brought up to date if anything was written. ``soon``:
        another process will use the store at once."""
        if self._store is not None:
            if self._store.wrote:
                self.update_page()
                self.tidy()
            self._store.close(soon=soon)

    def tidy(self) -> None:
        """What is due goes, with whoever wrote: removed blobs after their grace, the rest once a day. One look at two
        names tells whether anything can be due."""
        assert self._store is not None
        folder = self._store.folder
        from leftoff.files import SWEPT, is_due

        if os.path.exists(f"{folder}/trash") or is_due(f"{folder}/{SWEPT}", self.now):
            from leftoff.engine.retention.run_states import tidy

            tidy(self)

    def update_page(self) -> None:
        """Keep the table current that `[status] file` names."""
        if self.settings.section("status"):
            seams.update_page(self)
