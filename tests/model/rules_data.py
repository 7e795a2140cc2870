"""Rules about data: variables, records, artifacts, commits, and reading them back."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

import leftoff
from leftoff.engine.commit import Terms, commit
from leftoff.engine.opening import open_run
from leftoff.errors import Conflict, StaleEpoch, StoreUnavailable
from leftoff.model.changes import ChangeSet
from leftoff.model.codec import thaw
from tests.model import encoding, values, world
from tests.model.encoding import Json, canon
from tests.model.machine import Ground, picks

names = st.sampled_from(values.NAMES)
driven = precondition(lambda self: self.handles)
some = precondition(lambda self: self.runs)


class DataRules(Ground):
    """Assign, edit, append, delete, put, capture; commit, seal, fail, compare and set; read, diff."""

    @driven
    @rule(pick=picks, name=names, value=values.values)
    def assign(self, pick: int, name: str, value: Any) -> None:
        handle = self.handle_at(pick)
        handle.real.variables[name] = value
        handle.put("variable", name, value)

    @driven
    @rule(pick=picks, name=st.sampled_from(["x", "big"]), value=values.megabytes)
    def assign_megabytes(self, pick: int, name: str, value: Any) -> None:
        self.assign(pick, name, value)

    @driven
    @rule(pick=picks, name=names, changes=values.edits, commits=st.booleans())
    def edit(self, pick: int, name: str, changes: list[Any], commits: bool) -> None:
        """Read a list or dict, change a copy, assign it: unchanged entries are the very objects that were read."""
        handle = self.handle_at(pick)
        if name not in handle.real.variables:
            return
        changed = values.edited(handle.real.variables[name], changes)
        handle.real.variables[name] = changed
        handle.put("variable", name, thaw(changed))
        if commits:
            self.committed(handle, handle.real.commit)

    @driven
    @rule(pick=picks, name=names, entries=st.lists(values.entries, min_size=1, max_size=3))
    def append(self, pick: int, name: str, entries: list[Any]) -> None:
        handle = self.handle_at(pick, sharp=True)
        there = handle.visible(handle.view).get(name)
        if there is not None and not isinstance(there.value, list):
            return
        for entry in entries:
            handle.real.append(name, entry)
            handle.append(name, entry)

    @driven
    @rule(pick=picks, name=names)
    def delete(self, pick: int, name: str) -> None:
        handle = self.handle_at(pick)
        if name in handle.real.variables:
            del handle.real.variables[name]
            handle.delete("variable", name)
            assert name not in handle.real.variables

    @driven
    @rule(pick=picks, address=st.sampled_from(values.ADDRESSES), value=values.values)
    def put(self, pick: int, address: tuple[str, str], value: Any) -> None:
        handle = self.handle_at(pick)
        handle.real.put(*address, value)
        handle.put(*address, value)

    @driven
    @rule(pick=picks, title=st.sampled_from(["one", "two"]))
    def put_title(self, pick: int, title: str) -> None:
        handle = self.handle_at(pick)
        handle.real.put("run", "title", title)
        handle.put("run", "title", title)

    @driven
    @rule(
        pick=picks,
        name=st.sampled_from("fg"),
        content=st.sampled_from([b"", b"tiny", b"pack " * 900, bytes(range(256)) * 9]),
    )
    def artifact(self, pick: int, name: str, content: bytes) -> None:
        handle = self.handle_at(pick)
        path = self.project / f"{name}.bin"
        path.write_bytes(content)
        about = handle.real.artifact(path, step="by-hand")
        expected = {
            "path": path.name,
            "step": "by-hand",
            "captured_at": self.now,
            "hash": "sha256:" + sha256(content).hexdigest(),
            "size": len(content),
            "captured": True,
        }
        assert expected == {key: about[key] for key in expected}
        assert {"mode", "seen"} >= set(about) - set(expected)
        handle.put("artifact", path.name, about, content)
        self.contents.add(content)

    # -- commits

    @driven
    @rule(pick=picks)
    def commit(self, pick: int) -> None:
        handle = self.handle_at(pick)
        self.committed(handle, handle.real.commit)

    @driven
    @rule(pick=picks, trigger=st.sampled_from(values.TRIGGERS), note=st.sampled_from([None, "a note"]))
    def checkpoint(self, pick: int, trigger: str, note: str | None) -> None:
        handle = self.handle_at(pick)
        step = handle.open[-1] if handle.open else None
        self.committed(handle, lambda: handle.real.checkpoint(trigger, note), (trigger, step, note))

    @driven
    @rule(pick=picks, late=st.booleans(), seal=st.booleans(), name=names, value=values.small)
    def commit_fails(self, pick: int, late: bool, seal: bool, name: str, value: Any) -> None:
        """A commit that fails keeps its changes, and the next one applies them, once; also where it was durable."""
        handle = self.handle_at(pick)
        if handle.stale or self.unappendable(handle):
            return
        inner: Any = self.store._store
        with pytest.MonkeyPatch.context() as patch, pytest.raises(StoreUnavailable):
            patch.setattr(inner, "commit", _failing(inner.commit, late))
            handle.real.checkpoint()
        self.check_handle(handle)
        failed = dict(handle.pending)
        handle.real.variables[name] = value
        handle.put("variable", name, value)
        self.check_handle(handle)
        if late:
            step = handle.open[-1] if handle.open else None
            handle.run.add(world.with_changes(handle.run.state, failed), ("manual", step, None))
            handle.pending = {("variable", name): handle.pending["variable", name]}
        if seal:
            self.checkpoint(pick, "manual", None)
        else:
            self.committed(handle, handle.real.commit)

    @driven
    @rule(pick=picks, name=names, value=values.values, expects=st.sampled_from(["seen", "absent", "other"]))
    def compare_and_set(self, pick: int, name: str, value: Any, expects: str) -> None:
        handle = self.handle_at(pick, sharp=True)
        if ("variable", name) in handle.pending:
            with pytest.raises(leftoff.Invalid):
                handle.real.compare_and_set(name, None, value)
            return
        seen = handle.visible(handle.view).get(name)
        expected = {"seen": seen.value if seen else None, "absent": None, "other": {"never": "this"}}[expects]
        there = handle.run.state.get(("variable", name))
        holds = there is None if expected is None else there == Json(expected)
        if handle.stale or not holds:
            with pytest.raises(StaleEpoch if handle.stale else Conflict):
                handle.real.compare_and_set(name, expected, value)
            return
        handle.real.compare_and_set(name, expected, value)
        buffered, handle.pending = handle.pending, {}
        handle.put("variable", name, value)
        handle.commit()
        handle.pending = buffered
        self.check_handle(handle)

    @some
    @rule(pick=picks, name=names, value=values.values, appends=st.booleans())
    def second_writer(self, pick: int, name: str, value: Any, appends: bool) -> None:
        """Somebody else commits to the run, by the engine's plain operation."""
        self.tick()
        run = self.run_at(pick)
        other = world.Handle(run, None, run.epoch)  # type: ignore[arg-type]
        changes = ChangeSet()
        there = run.state.get(("variable", name))
        if appends and (there is None or isinstance(there.value, list)):
            changes.append(name, value)
            other.append(name, value)
        else:
            changes.put("variable", name, value)
            other.put("variable", name, value)
        head, _ = open_run(self.store._store, run.id, self.clock.ms)
        self.committed(other, lambda: commit(self.store._store, head, changes, Terms(self.clock.ms)))

    # -- reading

    @driven
    @rule(pick=picks)
    def read_handle(self, pick: int) -> None:
        handle = self.handle_at(pick)
        self.check_handle(handle)
        if len(handle.views) == 1:
            with_step = world.with_changes(
                handle.view, {a: c for a, c in handle.pending.items() if a[0] == "step"}
            )
            steps = {path: Json(thaw(record)) for path, record in handle.real.steps.items()}
            assert encoding.section(with_step, "step") == steps

    @driven
    @rule(pick=picks)
    def refresh(self, pick: int) -> None:
        handle = self.handle_at(pick)
        handle.real.refresh()
        handle.views = [handle.run.state]
        self.check_handle(handle)

    @some
    @rule(pick=picks, at=picks)
    def read_version(self, pick: int, at: int) -> None:
        run = self.run_at(pick)
        self.check_version(run, self.version_at(run, at))
        self.check_version(run, run.head)

    @some
    @rule(pick=picks)
    def read_head(self, pick: int) -> None:
        run = self.run_at(pick)
        view = self.store.get(run.id)
        self.check_records(run.state, view.records)
        self.check_history(run)
        self.check_gone(run)

    @some
    @rule(pick=picks, old=picks, new=picks)
    def diff(self, pick: int, old: int, new: int) -> None:
        run = self.run_at(pick)
        left, right = self.version_at(run, old), self.version_at(run, new)
        found = self.store.get(run.id).diff(left.seq, right.seq)
        expected = encoding.diff(left.state, right.state)
        assert canon(expected) == canon(found.to_json())
        parts = [
            *(part for name, part in expected.items() if name != "records"),
            *expected["records"].values(),
        ]
        assert bool(found) == any(any(part.values()) for part in parts)


def _failing(commit: Any, late: bool) -> Any:
    """A store's ``commit`` that fails, before or after it did its work."""

    def fails(fn: Any, *what: Any, **how: Any) -> Any:
        if late:
            commit(fn, *what, **how)
        raise StoreUnavailable("Injected.")

    return fails
