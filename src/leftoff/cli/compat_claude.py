"""The four checkpoint utilities of the claude protocol."""

from __future__ import annotations

import os

from leftoff.cli.given import json_or_file, read_text
from leftoff.cli.text import clean, columns
from leftoff.dialects.base import write
from leftoff.dialects.claude import (
    DIALECT,
    make_id,
    plan_changed,
    plan_path,
    project_in,
    snake,
    why_ask,
)
from leftoff.dialects.claude_files import ROOTS
from leftoff.dialects.draft import fit_id
from leftoff.dialects.importing import Importer
from leftoff.dialects.json_text import dump
from leftoff.dialects.take import state_at
from leftoff.engine.keeping import ARCHIVE, DEFAULT, REMOVE, Policy
from leftoff.errors import LeftoffError, NotFound, Usage
from leftoff.model.ids import slug
from leftoff.model.times import DAY_MS, ago
from leftoff.model.typed import json_value
from leftoff.model.words import UNFINISHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
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
    path = f"{ROOTS[0]}/{fit_id(str(document['checkpoint_id']))}.json"
    full = os.path.join(ctx.project, path)
    _put(full, document)
    rejected: list[LeftoffError] = []
    importer = Importer(
        ctx.store, ctx.project, ctx.redactor, ctx.now, lambda at, error: rejected.append(error)
    )
    importer.take(importer.read([full], DIALECT))
    if rejected:
        os.unlink(full)
        raise rejected[0]
    ctx.out(path)
    return 0


def completed(kind: str, state: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """The document of a checkpoint: what was given, and whatever the protocol wants besides."""
    from leftoff.clock import iso

    project = project_of(state)
    there = newest(ctx, kind, project)
    now = iso(ctx.now)
    known = document_of(ctx, there) if there is not None and "checkpoint_id" not in state else {}
    base = known or {
        "checkpoint_id": make_id(slug(kind), project, ctx.now),
        "workflow_type": kind,
        "created_at": now,
    }
    inside = {} if "workflow_state" in state else {k: v for k, v in state.items() if k not in DIALECT.keys}
    said = {key: value for key, value in state.items() if key not in inside}
    document = {**base, "status": "in_progress", **said, "workflow_type": kind, "updated_at": now}
    if "workflow_state" not in state:
        document["workflow_state"] = {**base.get("workflow_state", {}), **inside}
    document.setdefault("project_name", snake(project))
    document.setdefault("last_error", None)
    return document


def project_of(state: dict[str, Any]) -> str:
    """The project's name: at the top, in the state, or in the id."""
    inside = state.get("workflow_state")
    found = state.get("project_name") or (inside.get("project_name") if isinstance(inside, dict) else None)
    return str(found or project_in(str(state.get("checkpoint_id") or "")) or "project")


def _put(full: str, document: dict[str, Any]) -> None:
    from leftoff.dialects.swap import write_new

    os.makedirs(os.path.dirname(full), exist_ok=True)
    temp = f"{full}.{os.urandom(4).hex()}.leftoff"
    write_new(temp, dump(document).encode())
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
    return write(DIALECT, ctx.store.read(lambda view: state_at(ctx.store, view, row, DIALECT)))


def canonical_of(ctx: Context, row: RunRow) -> dict[str, Any]:
    """A run in the protocol's own form, whatever its file leaves out."""
    return DIALECT.encode(ctx.store.read(lambda view: state_at(ctx.store, view, row, DIALECT)))


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
    why = why_ask(document, ctx.now, plan_changed(ctx.project, plan) if plan is not None else None)
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
        said = canonical_of(ctx, row)
        done = sum(each["status"] == "completed" for each in said.get("operations", ()) if "status" in each)
        total = said.get("total_phases", len(said.get("operations", ())))
        cells = (row.run_id, row.workflow, said.get("project_name", row.card.get("project")), said["status"])
        progress = f"{len(said.get('completed_phases', ())) or done}/{total}"
        rows.append((*(clean(str(cell)) for cell in cells), progress, ago(row.updated_at, ctx.now)))
    if rows:
        ctx.out("\n".join(columns(rows)))
    return 0


def clean_up(ctx: Context, rest: list[str]) -> int:
    """`cleanup-checkpoints [max-age-days]`: those that are over go; one in progress stays."""
    from leftoff.dialects.upkeep import Upkeep

    word = rest[0] if rest else str(MAX_AGE_DAYS)
    if not (word.isascii() and word.isdigit() and len(word) < 6):
        raise Usage(f"The age must be a number of days, not {word[:40]!r}.", hint="For example: 7")
    age = int(word) * DAY_MS
    over = {"completed": (age, ARCHIVE), "failed": (age, REMOVE), "abandoned": (age, REMOVE)}
    upkeep = Upkeep(ctx.store, ctx.project, ctx.settings, ctx.now, ctx.limits)
    upkeep.dialect = DIALECT
    done = upkeep.prune(rules=Policy(keep=DEFAULT.keep, runs=over))
    for about in done.removed:
        if about["kind"] == "run":
            ctx.out(about["run_id"])
    return 0
