"""The four checkpoint utilities of the claude protocol."""

from __future__ import annotations

import os
from contextlib import suppress

from leftoff.cli.arguments import json_or_file, read_text
from leftoff.cli.render.text import clean, columns
from leftoff.dialects.claude.document import (
    DIALECT,
    is_key,
    make_id,
    phases,
    plan_changed,
    plan_path,
    project_in,
    project_of,
    snake,
    status_word,
    why_ask,
)
from leftoff.dialects.core.base import read, write
from leftoff.dialects.core.draft import Source, fit_id
from leftoff.dialects.core.json_text import dump
from leftoff.dialects.importing.documents import Importer
from leftoff.dialects.importing.report import Repairs
from leftoff.dialects.mirror.take import state_at
from leftoff.engine.retention.policy import ARCHIVE, DEFAULT, REMOVE, Policy
from leftoff.errors import LeftoffError, NotFound, Usage
from leftoff.model.ids import slug
from leftoff.model.times import DAY_MS, ago
from leftoff.model.typed import json_value
from leftoff.model.words import UNFINISHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.dialects.core.draft import State
    from leftoff.store.rows import RunRow

MAX_AGE_DAYS = 7


def save(ctx: Context, rest: list[str]) -> int:
    """`save-checkpoint <workflow-type> <state-json>`: prints the path of the checkpoint."""
    kind, word = rest
    state = json_value(read_text("-"), "The state") if word == "-" else json_or_file(word, "The state")
    if not isinstance(state, dict):
        raise Usage(
            "The state must be an object.", hint='For example: \'{"project_name": "x", "current_phase": 2}\''
        )
    document = completed(kind, state, ctx)
    said = read(DIALECT, document, Source(f"The state of {kind}"), Repairs()).state()
    there = _row(ctx, said.run_id)
    known = _state(ctx, there) if there is not None else said
    before = DIALECT.place(ctx.project.folder, known) if there is not None else None
    path = DIALECT.place(ctx.project.folder, known, said.status) or DIALECT.place(
        ctx.project.folder, known, "running"
    )
    assert path is not None
    _take_in(ctx, path, before or path, document)
    if said.status == "completed":
        with suppress(FileNotFoundError):  # the mirror, where there is one, was first
            os.unlink(os.path.join(ctx.project.folder, path))
        ctx.say(
            f"leftoff: {said.run_id} is completed: its checkpoint is deleted, the run stays in the store."
        )
    else:
        ctx.out(path)
    return 0


def completed(kind: str, state: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """The document of a checkpoint: what was given, and whatever the protocol wants besides."""
    from leftoff.clock import iso

    state = {key: value for key, value in state.items() if key != "checkpoint_id" or value is not None}
    project = project_in(state, str(state.get("checkpoint_id", "")))[0] or "project"
    known = _known(ctx, kind, project, state.get("checkpoint_id"))
    now = iso(ctx.now)
    if not known:
        known = {
            "checkpoint_id": make_id(slug(kind), project, ctx.now),
            "workflow_type": kind,
            "project_name": project,
            "created_at": now,
        }
    if "workflow_state" not in state:  # what the protocol has no key for is the workflow's own
        there, own = known.get("workflow_state"), {key: value for key, value in state.items() if is_key(key)}
        inside = {key: value for key, value in state.items() if key not in own}
        state = {**own, "workflow_state": {**(there if isinstance(there, dict) else {}), **inside}}
    document = {**known, "status": "in_progress", **state, "workflow_type": kind, "updated_at": now}
    document.setdefault("last_error", None)
    return document


def _known(ctx: Context, kind: str, project: str, given: Any) -> dict[str, Any]:
    """The checkpoint that is saved again: the one of that id, else the newest of the project."""
    row = newest(ctx, kind, project) if given is None else _row(ctx, fit_id(str(given)))
    return document_of(ctx, row) if row is not None else {}


def _row(ctx: Context, run_id: str) -> RunRow | None:
    return ctx.store.read(lambda view: view.find_run(run_id)) if ctx.store.exists() else None


def _take_in(ctx: Context, path: str, before: str, document: dict[str, Any]) -> None:
    """Write a checkpoint in the place of the one before, and import it; where that is refused, that one is back."""
    full, old = os.path.join(ctx.project.folder, path), os.path.join(ctx.project.folder, before)
    kept = _bytes(old)
    _put(full, dump(document).encode())
    if old != full and kept is not None:
        os.unlink(old)
    rejected: list[LeftoffError] = []
    importer = Importer(
        ctx.store, ctx.project.folder, ctx.redactor, ctx.now, lambda at, error: rejected.append(error)
    )
    importer.take(importer.read([full], DIALECT))
    if rejected:
        os.unlink(full)
        if kept is not None:
            _put(old, kept)
        raise rejected[0]


def _bytes(full: str) -> bytes | None:
    try:
        with open(full, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _put(full: str, data: bytes) -> None:
    from leftoff.dialects.mirror.swap import write_new

    os.makedirs(os.path.dirname(full), exist_ok=True)
    temp = f"{full}.{os.urandom(4).hex()}.leftoff"
    write_new(temp, data)
    os.replace(temp, full)


def runs(ctx: Context, kind: str | None, project: str | None = None) -> list[RunRow]:
    """Unfinished runs of a type and project, latest first."""
    if not ctx.store.exists():
        return []
    where: dict[str, Any] = {"status": UNFINISHED, "workflow": kind}
    rows = ctx.store.read(lambda view: view.list_runs(where))
    wanted = snake(project) if project is not None else None
    return [
        row
        for row in rows
        if wanted is None or snake(str(row.card.get("project") or row.title or "")) == wanted
    ]


def newest(ctx: Context, kind: str, project: str | None) -> RunRow | None:
    return next(iter(runs(ctx, kind, project)), None)


def document_of(ctx: Context, row: RunRow) -> dict[str, Any]:
    return write(DIALECT, _state(ctx, row))


def _state(ctx: Context, row: RunRow) -> State:
    return ctx.store.read(lambda view: state_at(ctx.store, view, row, DIALECT))


def load(ctx: Context, rest: list[str]) -> int:
    """`load-checkpoint <workflow-type> [project-name]`: prints the newest one; why a person should look is said."""
    row = newest(ctx, rest[0], rest[1] if len(rest) > 1 else None)
    if row is None:
        raise NotFound(
            f"There is no checkpoint of {' '.join(rest)}.",
            hint="`leftoff compat list-checkpoints` lists them.",
        )
    document = document_of(ctx, row)
    plan = plan_path(document)
    why = why_ask(document, ctx.now, plan_changed(ctx.project.folder, plan) if plan is not None else None)
    if why is not None:
        ctx.say(f"leftoff: look before you resume it: {why}.")
    ctx.out(dump(document).rstrip("\n"))
    return 0


def show(ctx: Context, rest: list[str]) -> int:
    """`list-checkpoints [workflow-type]`: one row each."""
    found = runs(ctx, rest[0] if rest else None)
    if ctx.args.json:
        ctx.emit({"checkpoints": [document_of(ctx, row) for row in found]})
        return 0
    rows = []
    for row in found:
        state = _state(ctx, row)
        words = (row.run_id, row.workflow, project_of(state), status_word(state))
        done, total = phases(state)
        rows.append((*map(clean, words), f"{len(done)}/{total}", ago(row.updated_at, ctx.now)))
    if rows:
        ctx.out("\n".join(columns(rows)))
    return 0


def clean_up(ctx: Context, rest: list[str]) -> int:
    """`cleanup-checkpoints [max-age-days]`: those that are over go; one in progress stays."""
    from leftoff.dialects.retention import Upkeep

    word = rest[0] if rest else str(MAX_AGE_DAYS)
    if not (word.isascii() and word.isdigit() and len(word) < 6):
        raise Usage(f"The age must be a number of days, not {word[:40]!r}.", hint="For example: 7")
    age = int(word) * DAY_MS
    over = {"completed": (age, ARCHIVE), "failed": (age, REMOVE), "abandoned": (age, REMOVE)}
    upkeep = Upkeep(ctx.store, ctx.project.folder, ctx.settings, ctx.now, ctx.limits)
    upkeep.dialect = DIALECT
    done = upkeep.prune(rules=Policy(keep=DEFAULT.keep, runs=over))
    for about in done.removed:
        if about["kind"] == "run":
            ctx.out(about["run_id"])
    return 0
