"""What must hold of a store after any crash."""

from __future__ import annotations

from pathlib import Path

import leftoff
from leftoff.errors import LeftoffError
from tests.crash import model
from tests.crash.harness import Heard


class Violation(AssertionError):
    """A promise was broken: something acknowledged is missing, torn, wrong, or the store is damaged."""


def check(condition: object, text: str) -> None:
    """Raise a violation unless the condition holds."""
    if not condition:
        raise Violation(text)


def verify(path: Path | str, heard: Heard, plan: str) -> None:
    """Everything acknowledged is there; what was not is there whole or not at all; fsck is clean."""
    check(not heard.fatal, f"the program met an error it should never see: {heard.fatal}")
    store = leftoff.open(path)
    try:
        for run_id, last in heard.last.items():
            verify_run(store, run_id, last, plan)
        verify_checkpoints(store, heard, plan)
        report = store.fsck()
        check(report.ok, f"fsck found damage: {report.problems}")
    except LeftoffError as error:
        raise Violation(f"the store cannot be read: {type(error).__name__}: {error}") from error
    finally:
        store.close()


def verify_run(store: leftoff.Store, run_id: str, last: int, plan: str) -> None:
    """The head is the last acknowledged operation, or the one after it, in every variable."""
    if last == 0:
        return
    run = store.get(run_id)
    found = dict(run.variables)
    n = int(found.get("a", 0))
    check(n >= last, f"{run_id}: operation {last} was acknowledged, the store is at {n}")
    check(n <= last + 1, f"{run_id}: the store is at {n}, but {last} was the last acknowledged")
    expected = model.variables(n, plan)
    differing = [name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)]
    check(not differing, f"{run_id}: at operation {n} these variables are not what was set: {differing}")
    for one in model.those("do", last, plan):
        status = run.steps[model.step(one)]["status"]
        check(status == "completed", f"{run_id}: step {one} was acknowledged and is {status}")
    kept = " ".join(run.records["artifact"])
    for one in model.those("artifact", last, plan):
        check(f"{run_id}-{one}.bin" in kept, f"{run_id}: the artifact of operation {one} is missing")


def verify_checkpoints(store: leftoff.Store, heard: Heard, plan: str) -> None:
    """The newest acknowledged checkpoints that nobody dropped read back as they were sealed."""
    kept = [entry for entry in heard.sealed.items() if entry[0] not in heard.dropped]
    for sealed, (run_id, n) in kept[-6:]:
        found = dict(store.get(run_id).at(sealed).variables)
        check(found == model.variables(n, plan), f"{run_id}: checkpoint {sealed} is not operation {n}")


def verify_alive(path: Path | str) -> None:
    """The store takes new work after the crash."""
    store = leftoff.open(path)
    try:
        run = store.start("afterwards")
        run.variables.update(alive=True)
        run.commit()
        found = dict(store.get(run.id).variables)
        run.finish()
        check(found == {"alive": True}, f"a commit after the crash reads back as {found}")
    finally:
        store.close()
