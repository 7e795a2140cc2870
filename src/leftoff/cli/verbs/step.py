"""``leftoff step``: what happened to a step."""

from __future__ import annotations

from leftoff.cli.arguments import asked, json_or_file, number, step_path
from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.engine.config.project import git_head
from leftoff.engine.steps.reports import STATUS, StepReport, capture_outputs, step_changes
from leftoff.engine.workspace.surroundings import remember_git
from leftoff.errors import Usage
from leftoff.model.changes import NOTHING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.engine.write.commit import Seal
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx
    from leftoff.store.rows import BlobRow, RunRow

SPEC = Spec(
    "step",
    "Report on a step of the current run. One that was not declared is added, behind the others.\n"
    "done and skip seal a checkpoint, fail and block seal one too and exit 0; start only commits. done of a completed\n"
    "step changes nothing. A blocked step blocks the run until it is started, done or skipped.\n"
    "Where LEFTOFF_STEP is set, STEP is relative to it, unless it starts with a slash.",
    usage="start|done|fail|block|skip STEP",
    least=2,
    most=2,
    options=(
        Opt("--output", "PATH", "a file the step wrote: recorded, and a copy of it kept", many=True),
        Opt("--result", "JSON", "what came of it (or @FILE)"),
        Opt("--error", "MSG", "why it failed or is blocked"),
        Opt("--type", "T", "what kind of error that is"),
        Opt("--resume-with", "TEXT", "what whoever goes on must do first"),
        Opt("--title", "T", "what the step is called"),
        Opt("--total", "N", "how many steps it has below it"),
        Opt("--note", "N", "a note, also on the checkpoint"),
        *CURRENT,
    ),
    examples="""  leftoff step start collect
  leftoff step done collect --output urls.txt --result '{"urls": 12}'
  leftoff step fail publish --error "HTTP 500" --resume-with "ask ops whether the server is up"
  leftoff step done convert/post-20""",
)


def run(args: Args, ctx: Context) -> int:
    at = ctx.now
    report = read_report(args)
    blobs: list[BlobRow] = []
    if args.output:
        ctx.current()  # nothing is kept for a run that is not there
        blobs = capture_outputs(ctx.store, ctx.project.folder, report, args.output, ctx.redactor, at)
    head = git_head(ctx.project.folder) if report.action != "start" else None
    found = ctx.files() if report.action != "start" else None
    seen = ctx.issue_now() if report.action in ("done", "skip") and _ends_phase(ctx, report.path) else {}

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        seal = asked(lambda: step_changes(ctx.store, tx, row, changes, report, at))
        if seal is not None:
            remember_git(head, row, changes)
            for key, value in seen.items():
                changes.put("context", key, value)
            if found is not None:
                found.put(changes, row.seq + 1)
        return seal

    report.masked(ctx.redactor)
    return ctx.told(ctx.report(make, at=at, blobs=blobs + (found.blobs if found is not None else [])))


def _ends_phase(ctx: Context, path: str) -> bool:
    """Whether this is the last step of a phase of a run that works on an issue."""
    row = ctx.current()
    if not row.issue:
        return False
    from leftoff.engine.read.state import read
    from leftoff.model.ids import parent_of

    steps = {key: value.plain for key, value in read(ctx.store, row.run, row.run_id, "step").items()}
    phase = parent_of(path)
    below = [record["status"] for key, record in steps.items() if key.startswith(f"{phase}/") and key != path]
    if phase:
        return all(status in ("completed", "skipped") for status in below)
    return bool(steps.get(path, {}).get("kind") == "phase")


def read_report(args: Args) -> StepReport:
    action, word = args.rest
    if action not in STATUS:
        raise Usage(f"A step cannot be {action!r}.", hint=f"usage: leftoff step {SPEC.usage}")
    return StepReport(
        action,
        step_path(word),
        title=args.title,
        total=number(args.total, "--total"),
        result=NOTHING if args.result is None else json_or_file(args.result, "--result"),
        error=args.error,
        kind=args.type,
        resume_with=args.resume_with,
        note=args.note,
    )
