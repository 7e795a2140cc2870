"""A run that this process drives: changes are buffered, and become durable together.

They become durable at ``commit()``, at ``checkpoint()`` and at the end of a step; that is also when other processes
see them, and when this one picks up theirs. A commit that fails keeps its changes: call it again.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from leftoff.api.beat import Heart
from leftoff.api.buffer import Buffer
from leftoff.api.files import FilesMixin
from leftoff.api.read import RunView
from leftoff.api.step_log import logger
from leftoff.api.steps import StepsMixin
from leftoff.api.views import Values, Variables
from leftoff.engine.steps import lifecycle
from leftoff.engine.write.commit import Seal, new_token
from leftoff.engine.write.records import note_record, refuse_decision
from leftoff.errors import StoreUnavailable
from leftoff.model.ids import check_step, parent_of, shown_step
from leftoff.model.words import UNFINISHED

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from leftoff.api.store import Store
    from leftoff.engine.write.head import Head
    from leftoff.model.versions import Version

T = TypeVar("T")


class Run(StepsMixin, FilesMixin, RunView):
    """One run, driven by this process until it is finished, paused, or the process ends."""

    def __init__(self, owner: Store, head: Head, epoch: int, *, resumed: bool) -> None:
        super().__init__(owner._store, head.run, head.run_id, owner._clock, limits=owner._limits)
        self._owner = owner
        self.resumed = resumed  # whether there was something to go on from
        self._buffer = Buffer(owner._store, head, epoch, owner._clock, owner._redactor)
        self._variables = Variables(self._buffer)
        self._notes = 0
        self._init_steps()
        lifecycle.said.clear()
        self._buffer.heart = Heart(self._buffer, owner._heartbeat)
        owner._drives(self)

    # -- variables

    @property
    def variables(self) -> Variables:
        return self._variables

    def append(self, name: str, item: Any) -> None:
        """Add one entry to the list variable ``name`` (made if need be). Costs the same at any length."""
        self._buffer.append(name, item)

    def compare_and_set(self, name: str, expected: Any, value: Any) -> None:
        """Set a variable only if it still has the expected value (``None``: only if it is not there), and commit.

        ``Conflict`` where somebody was faster; nothing is changed then.
        """
        self._buffer.compare_and_set(name, expected, value)

    @property
    def log(self) -> logging.Logger:
        """A logger whose lines are the log of the step that is under way: ``leftoff logs`` shows them."""
        return logger

    # -- commits

    def commit(self) -> Version | None:
        """Make everything buffered durable, and pick up what others committed. ``None`` where nothing changed."""
        self._close_left_open(None)
        return self._buffer.commit_all()

    def checkpoint(
        self, trigger: str = "manual", note: str | None = None, *, step: str | None = None
    ) -> Version:
        """Commit and seal: a version with an id, to come back to."""
        self._close_left_open(None)
        self._look_around(trigger)
        version = self._buffer.commit(
            Seal(trigger, step or self._current_step(), self._masked(note), asked=True)
        )
        assert version is not None
        return version

    # -- records

    def refresh(self) -> None:
        """Pick up what others have committed, without committing anything."""
        self._buffer.refresh()

    def put(self, collection: str, key: str, value: Any) -> None:
        """Set any record but those by which leftoff knows what to execute, or that was decided; durable with the next
        commit."""
        refuse_decision(collection, key, value)
        self._buffer.put(collection, key, value)

    def note(self, text: str) -> None:
        """Leave a note for whoever goes on."""
        now = self._clock.now()
        about = note_record(self._buffer.redactor.mask(text), now, self._current_step())
        with self._buffer.lock:
            self._notes += 1
            key = f"{now:015d}-{self._notes:04d}-{new_token()[:3].hex()}"
            self._buffer.pending.put("note", key, about)

    def _names(self) -> list[str]:
        return sorted({*super()._names(), *self._buffer.names()})

    def _read(self, collection: str) -> Mapping[str, Any]:
        if collection == "step":
            return self.steps
        if collection == "variable":
            return self.variables
        return Values(collection, self._buffer.read(collection))

    # -- history

    def fork(
        self,
        *,
        branch: str,
        ref: str | int | Version | None = None,
        run_id: str | None = None,
        **variables: Any,
    ) -> Run:
        """A new run on another branch that starts from here (or from ``ref``)."""
        self.commit()
        return self._owner._fork(self, ref, branch, run_id, variables)

    def diff(self, old: Any, new: Any = None) -> Any:
        self.commit()
        return super().diff(old, new)

    # -- its end

    def beat(self) -> None:
        """Say that this run is still driven. A thread does so by itself."""
        self._buffer.beat()

    def finish(self, status: str = "completed", *, summary: str | None = None) -> None:
        """End the run (completed, failed or abandoned) and stop driving it."""
        self._settle(status, None, summary)

    def pause(self, note: str | None = None) -> None:
        """Stop driving the run for now; it stays unfinished."""
        self._settle("paused", Seal("session_end", note=self._masked(note)) if note else None, None)

    def _masked(self, text: str | None) -> str | None:
        return self._buffer.redactor.mask(text) if text is not None else None

    def _settle(self, status: str, seal: Seal | None, summary: str | None) -> None:
        """Set the run's status in the commit that ends our driving it."""
        if not self._buffer.driving:
            return
        self._close_all(None)
        if self._buffer.settle(status, seal, self._masked(summary)):
            self._owner._drove(self)

    @contextmanager
    def _or_release(self) -> Iterator[None]:
        """Where this fails, nobody drives the run."""
        try:
            yield
        except BaseException:
            self._release()
            raise

    def _release(self) -> None:
        self._owner._runs.discard(self)
        self._buffer.release()

    def _let_go(self) -> None:
        """Drive it no more, whatever the store says."""
        self._owner._runs.discard(self)
        self._buffer.let_go()

    def __enter__(self) -> Run:
        return self

    def map(
        self,
        fn: Callable[[T], Any],
        items: Iterable[T],
        *,
        name: str | None = None,
        key: str | Callable[[T], str] | None = None,
        max_parallel: int = 1,
        keep_going: bool = False,
        again: bool = False,
    ) -> Any:
        """Call ``fn`` with each item, a step each, ``max_parallel`` at a time; what they return, in order.

        Items that are finished are not done again, unless ``again``. With ``key``, a finished item whose content
        changed is an error: ``Usage``, or ``Diverged`` if an earlier process did it. The first failure is raised; with
        ``keep_going`` the others are done, and the list that comes back has ``failures``, by key. Where ``fn`` is a
        coroutine function, await the result.
        """
        from inspect import iscoroutinefunction

        from leftoff.api.maps import ItemMap
        from leftoff.api.values import check_return

        path = check_step(name or getattr(fn, "__name__", "map").strip("<>"))
        check_return(fn, path)
        keyed = list(self._keyed(path, list(items), key, again, fn))
        mapping = ItemMap(self, path, keyed, keep_going=keep_going, again=again)
        if iscoroutinefunction(fn):
            return mapping.go_async(fn, max_parallel)
        return mapping.go(fn, max_parallel)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not self._buffer.driving:
            return
        self._close_all(error)
        try:
            self._leave(error)
        except StoreUnavailable:
            if error is None:
                raise
            # The error that ended the work is the one to tell; the lease ends with the process.

    def _leave(self, error: BaseException | None) -> None:
        if error is None and self._left_undone is not None:
            self._settle("failed", Seal("error", note=self._left_undone), None)
        elif error is None:
            self._say_what_is_left()
            self.finish()
        elif isinstance(error, Exception):
            self._settle(
                "failed", None if self._sealed_error(error) else Seal("error", note=self._told(error)), None
            )
        elif isinstance(error, KeyboardInterrupt):
            self._settle("paused", None if self._sealed_error(error) else Seal("user_interrupt"), None)
            print(
                f"leftoff: run {self.id} is kept. Start it again to continue where it left off.",
                file=sys.stderr,
            )
        else:
            self._settle("paused", Seal("session_end"), None)

    async def __aenter__(self) -> Run:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.__exit__(kind, error, trace)

    def _say_what_is_left(self) -> None:
        steps = self.steps
        inner = {parent_of(path) for path in steps}
        open_steps = [path for path, step in steps.items() if step["status"] not in ("completed", "skipped")]
        left = [path for path in open_steps if path not in inner]
        if left and self.status in UNFINISHED:
            shown = ", ".join(map(shown_step, left[:5])) + (
                f" and {len(left) - 5} more" if len(left) > 5 else ""
            )
            print(f"leftoff: run {self.id} is completed; steps left: {shown}", file=sys.stderr)

    def __repr__(self) -> str:
        return f"<Run {self.id}, driven by this process>" if self._buffer.driving else super().__repr__()
