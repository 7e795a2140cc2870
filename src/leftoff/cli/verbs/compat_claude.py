"""The four checkpoint utilities of the claude protocol."""

from __future__ import annotations

from leftoff.cli.arguments import json_or_file, read_text
from leftoff.cli.render.text import clean, columns
from leftoff.dialects.claude import phases, project_of, status_word, why_ask
from leftoff.dialects.claude_compat import MAX_AGE_DAYS, Checkpoints
from leftoff.dialects.document_text import dump_json as dump
from leftoff.errors import NotFound, Usage
from leftoff.model.times import ago
from leftoff.model.typed import json_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context


def save(ctx: Context, rest: list[str]) -> int:
    """`save-checkpoint <workflow-type> <state-json>`: prints the path of the checkpoint."""
    kind, word = rest
    state = json_value(read_text("-"), "The state") if word == "-" else json_or_file(word, "The state")
    if not isinstance(state, dict):
        raise Usage(
            "The state must be an object.", hint='For example: \'{"project_name": "x", "current_phase": 2}\''
        )
    run_id, path = Checkpoints(ctx.project).save(kind, state)
    if path is None:
        ctx.say(f"leftoff: {run_id} is completed: its checkpoint is deleted, the run stays in the store.")
    if ctx.args.json:
        ctx.emit({"run_id": run_id, "path": path})
    elif path is not None:
        ctx.out(path)
    return 0


def load(ctx: Context, rest: list[str]) -> int:
    """`load-checkpoint <workflow-type> [project-name]`: prints the newest one; why a person should look is said."""
    checkpoints = Checkpoints(ctx.project)
    found = checkpoints.unfinished(rest[0], rest[1] if len(rest) > 1 else None)
    if not found:
        raise NotFound(
            f"There is no checkpoint of {' '.join(rest)}.",
            hint="`leftoff compat list-checkpoints` lists them.",
        )
    document = checkpoints.document(found[0])
    why = why_ask(document, ctx.project.folder, ctx.project.now)
    if why is not None:
        ctx.say(f"leftoff: look before you resume it: {why}.")
    if ctx.args.json:
        ctx.emit(document)
    else:
        ctx.out(dump(document).rstrip("\n"))
    return 0


def show(ctx: Context, rest: list[str]) -> int:
    """`list-checkpoints [workflow-type]`: one row each."""
    checkpoints = Checkpoints(ctx.project)
    found = checkpoints.unfinished(rest[0] if rest else None)
    if ctx.args.json:
        ctx.emit({"checkpoints": [checkpoints.document(row) for row in found]})
        return 0
    rows = []
    for row in found:
        state = checkpoints.state(row)
        words = (row.run_id, row.workflow, project_of(state), status_word(state))
        done, total = phases(state)
        rows.append((*map(clean, words), f"{len(done)}/{total}", ago(row.updated_at, ctx.project.now)))
    if rows:
        ctx.out("\n".join(columns(rows)))
    return 0


def clean_up(ctx: Context, rest: list[str]) -> int:
    """`cleanup-checkpoints [max-age-days]`: those that are over go; one in progress stays."""
    word = rest[0] if rest else str(MAX_AGE_DAYS)
    if not (word.isascii() and word.isdigit() and len(word) < 6):
        raise Usage(f"The age must be a number of days, not {word[:40]!r}.", hint="For example: 7")
    removed = Checkpoints(ctx.project).clean_up(int(word))
    if ctx.args.json:
        ctx.emit({"removed": [*removed]})
        return 0
    for run_id in removed:
        ctx.out(run_id)
    return 0
