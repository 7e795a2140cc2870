"""Other processes: programs that run beside the test, and reports that come from somewhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import leftoff
from leftoff.engine.commit import Head, Seal, Terms, commit
from leftoff.model.changes import ChangeSet


def start_program(text: str, folder: Path, **environment: str) -> subprocess.Popen[str]:
    """A Python program in a folder, with its ends on pipes."""
    return subprocess.Popen(
        [sys.executable, "-u", "-c", text],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def program(text: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A Python program that ran to its end."""
    child = start_program(text, folder, **environment)
    out, err = child.communicate(timeout=120)
    return subprocess.CompletedProcess(child.args, child.returncode, out, err)


def said(text: str, folder: Path, **environment: str) -> list[str]:
    """The lines that a program prints, given that it ends well."""
    done = program(text, folder, **environment)
    assert 0 == done.returncode, done.stderr
    return done.stdout.splitlines()


def wait_for(child: subprocess.Popen[str], line: str) -> None:
    """Read a program's output up to a line."""
    assert child.stdout is not None
    for found in child.stdout:
        if found.strip() == line:
            return
    raise AssertionError(f"the program ended without {line!r}: {child.communicate()[1]}")


def out_of_reach(*_: Any, **__: Any) -> Any:
    """In the place of a store's `write`: the disk is full."""
    raise leftoff.StoreUnavailable("The disk is full.")


def elsewhere(
    path: Path, run_id: str, changes: dict[tuple[str, str], Any], *, trigger: str | None = None
) -> None:
    """What an agent reports about a run that somebody else drives: it needs no lease."""
    with leftoff.open(path) as store:

        def look(view: Any) -> Head:
            row = view.find_run(run_id)
            return Head(row.run, row.run_id, row.seq, int.from_bytes(row.digest, "big"))

        report = ChangeSet(store._redactor)
        for (collection, key), value in changes.items():
            report.put(collection, key, value)
        seal = Seal(trigger) if trigger else None
        commit(store._store, store._store.read(look), report, Terms(store._clock.now(), seal=seal))
