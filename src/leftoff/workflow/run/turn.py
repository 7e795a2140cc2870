"""What the parts of the driver share, and the turn that is being taken.

A turn collects what happened since the last one; ``close`` commits all of it in one transaction and only then lets
anything depend on it: a shim is told to go, an observer is told what is safe.
"""

from __future__ import annotations

import os
import time
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

from leftoff.clock import iso
from leftoff.engine.config.caller import CALLER
from leftoff.errors import LeftoffError
from leftoff.model.ids import with_item
from leftoff.store.rows import MOST_OUTPUT
from leftoff.workflow.processes.attempt_folder import LOG
from leftoff.workflow.run.records import Entries
from leftoff.workflow.run.reuse import Reuse
from leftoff.workflow.template.shell_values import OWN_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from leftoff.store.base import Store
    from leftoff.workflow.definition.model import Step
    from leftoff.workflow.processes.attempt_folder import AttemptFolder
    from leftoff.workflow.processes.client import Launcher
    from leftoff.workflow.run.ledger import Entry, Ledger
    from leftoff.workflow.run.runner import Setting
    from leftoff.workflow.run.scheduler import Scheduler
    from leftoff.workflow.run.state import State
    from leftoff.workflow.run.unit import LiveAttempt
    from leftoff.workflow.template.templates import Templates

    Observer = Callable[[dict[str, Any]], None]
    Ask = Callable[
        [str, str, str], bool
    ]  # a finding's code, what is the matter, what to do: whether to go on

PIECE = 1 << 18
GRACE = 10.0  # seconds between the request to end and the end


class ActiveRun:
    """A run that is being driven: its definition, its processes, its audience."""

    def __init__(
        self,
        setting: Setting,
        state: State,
        ledger: Ledger,
        scheduler: Scheduler,
        templates: Templates,
        launcher: Launcher,
    ) -> None:
        self.state = state
        self.ledger = ledger
        self.scheduler = scheduler
        self.templates = templates
        self.launcher = launcher
        self.redactor = setting.redactor
        self.observer = setting.observer
        self.project = state.project
        self.folder = setting.folder  # of the attempts of this run
        self.store_url = setting.store_url
        self.secrets = setting.secrets
        # Copied once: asking each time costs more than a step's commit. Without the values of a step around this run.
        self.environ = {
            name: value for name, value in CALLER.environment().items() if not OWN_NAME.fullmatch(name)
        }
        self.grace = setting.grace
        self._seen = setting.seen  # what the world is like, where a phase ends
        self.tree = setting.tree  # the files that the run knows, where a step ends
        self.entries = Entries(state)
        self.reuse = Reuse(ledger.store, state, templates, everything=setting.reuse)
        self.attempts: dict[str, LiveAttempt] = {}  # by token
        self.tries: dict[str, int] = {}  # failures of each unit in this life of the run
        self.decided: dict[str, bool] = {}  # what the `when` of phases said
        self._batches_told: set[int] = set()
        self._turn: list[tuple[Entry, Callable[[], None] | None]] = []
        self._durable = False
        self.untidy: list[AttemptFolder] = []  # folders of attempts whose end is durable
        self._tidier: Thread | None = None
        self._phase = ""  # the one that was entered last
        self._entered: set[str] = set()

    # -- the turn

    def add(
        self,
        entry: Entry,
        then: Callable[[], None] | None = None,
        *,
        durable: bool = True,
        first: bool = False,
    ) -> None:
        """Commit this with the turn, then do that. Not ``durable``: it need not survive a power cut by itself."""
        self._turn.insert(0, (entry, then)) if first else self._turn.append((entry, then))
        self._durable = self._durable or durable

    def amend(self, entry: Entry) -> None:
        """Into the last commit of this turn; a commit of its own where there is none."""
        from leftoff.workflow.run.records import chain

        if self._turn:
            last, then = self._turn[-1]
            self._turn[-1] = (chain(last, entry), then)
            self._durable = True
        else:
            self.add(entry)

    def close(self) -> None:
        """Commit the turn; then tell."""
        turn, durable = self._turn, self._durable
        if not turn:
            return
        self._turn, self._durable = [], False
        versions = self.ledger.write([entry for entry, _ in turn], durable=durable)
        if self.ledger.foreign:  # a step's own process may have set some
            self.state.forget_variables()
        for (_, then), version in zip(turn, versions, strict=True):
            if then is not None:
                then()
            if version is not None and version.trigger is not None:
                about = {"checkpoint_id": version.id, "trigger": version.trigger, "step": version.step}
                self.tell("checkpoint", **with_item(about, version.step, self._record_of(version.step)))

    def tidy_up(self, most: int = 0) -> None:
        """Remove what attempts left, if there is more than that; in a thread, since on a busy disk it takes as long as
        a step does."""
        if len(self.untidy) <= most or (self._tidier is not None and self._tidier.is_alive()):
            return
        folders, self.untidy = self.untidy, []
        self._tidier = Thread(target=_tidy_all, args=(self.ledger.store, folders), daemon=True)
        self._tidier.start()

    def tidied(self) -> None:
        """Wait until nothing is left to be removed."""
        if self._tidier is not None:
            self._tidier.join()
        _tidy_all(self.ledger.store, self.untidy)
        self.untidy = []

    def tell(self, event: str, **facts: Any) -> None:
        self.observer({"event": event, "at": iso(self.ledger.clock.now()), **facts})

    def follow(self, leaf: str, inner: list[tuple[str, str]]) -> None:
        """A unit ended: what ended with it is recorded, batches and phases are sealed."""
        for path, status in inner:
            if self.scheduler.steps[path].kind == "phase":
                self.add(self.entries.inner(path, status, "phase_transition", self._seen()))
            else:
                told = partial(self.tell, "step_done", step=path, status=status)
                seal = "step_complete" if status == "completed" and self.scheduler.steps[path].save else None
                self.add(self.entries.inner(path, status, seal), told)
        if self.scheduler.status[leaf] in ("completed", "skipped", "failed"):
            self.complete_batch(leaf)

    # -- where a step stands

    def above(self, path: str) -> list[str]:
        """The steps that contain it, from the outside in."""
        parts = path.split("/")
        return ["/".join(parts[:n]) for n in range(1, len(parts))]

    def step_facts(self, step: Step, unit: str) -> dict[str, Any]:
        record = self._record_of(unit)
        facts = with_item({"step": unit, "title": record.get("title") or step.title or None}, unit, record)
        return {key: value for key, value in facts.items() if value is not None}

    def _record_of(self, path: str | None) -> dict[str, Any]:
        return self.state.steps.get(path, {}) if path is not None else {}

    def start_batch(self, leaf: str) -> None:
        """Seal that a batch begins, where this step is the first of several."""
        number = self.state.graph.level[leaf]
        if number in self._batches_told:
            return
        self._batches_told.add(number)
        if len(self.scheduler.batches[number]) > 1:
            self._seal_batch("batch_start", number)

    def complete_batch(self, leaf: str) -> None:
        """Seal that a batch is complete, where this step was the last of several."""
        number = self.state.graph.level[leaf]
        if len(self.scheduler.batches[number]) > 1 and self.scheduler.batch_is_complete(number):
            self._seal_batch("batch_complete", number)

    def complete_batches(self, numbers: Iterable[int], sealed: Collection[str | None]) -> None:
        """Seal those that are complete, except where a checkpoint with such a note says so already."""
        for number in sorted(numbers):
            several, complete = (
                len(self.scheduler.batches[number]) > 1,
                self.scheduler.batch_is_complete(number),
            )
            if several and complete and self._note(number) not in sealed:
                self._seal_batch("batch_complete", number)

    def _note(self, number: int) -> str:
        return f"batch {number + 1} of {len(self.scheduler.batches)}"

    def _seal_batch(self, trigger: str, number: int) -> None:
        batches, note = self.scheduler.batches, self._note(number)
        facts = {"batch": number + 1, "of": len(batches), "steps": batches[number]}
        self.add(self.entries.seal(trigger, None, note), lambda: self.tell(trigger, **facts))

    def restore_batches(self) -> None:
        """Batches that began in an earlier life of the run do not begin again."""
        graph = self.state.graph
        for path in graph.leaves:
            if self.state.steps.get(path, {}).get("started_at"):
                self._batches_told.add(graph.level[path])

    def entered(self, leaf: str) -> tuple[str, str] | None:
        """The phase that begins with this step, and the one that began before it; nothing where none begins."""
        phase = leaf.partition("/")[0] if "/" in leaf else ""
        if not phase or phase in self._entered or self.state.steps[phase].get("started_at"):
            return None
        self._entered.add(phase)
        before, self._phase = self._phase, phase
        return before, phase

    @staticmethod
    def monotonic() -> float:
        return time.monotonic()


def _tidy_all(store: Store, folders: list[AttemptFolder]) -> None:
    for folder in folders:
        try:
            _keep_log(store, folder)
            folder.tidy()
        except (OSError, LeftoffError):
            pass  # whoever removes the run removes it; the log is still here


def _keep_log(store: Store, folder: AttemptFolder) -> None:
    """Save the whole of a long log in a store that machines share. Its end was committed with the attempt."""
    path = folder.file(LOG)
    if not store.shared or not os.path.exists(path) or os.path.getsize(path) <= MOST_OUTPUT:
        return
    with open(path, "rb") as file:
        whole = store.save_blob(iter(lambda: file.read(PIECE), b""))
    store.write(lambda tx: tx.keep_log(folder.name, None, whole))
