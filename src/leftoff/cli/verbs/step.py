"""``leftoff step``: what happened to a step."""

from __future__ import annotations

from leftoff.cli.arguments import json_or_file, number, step_path
from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.engine.steps.reports import STATUS, StepReport
from leftoff.errors import Usage
from leftoff.model.changes import NOTHING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args

SPEC = Spec(
    "step",
    "Report on a step of the current run. An undeclared step is added after the others.\n\n"
    "done, skip, fail and block save a checkpoint and exit 0; start only commits. Reporting a completed "
    "step as done again changes nothing. A blocked step blocks the run until it is started, done or "
    "skipped. If LEFTOFF_STEP is set, STEP is relative to it unless it starts with a slash.",
    usage="start|done|fail|block|skip STEP",
    least=2,
    most=2,
    options=(
        Opt("--output", "PATH", "a file the step wrote: recorded, with a copy", many=True),
        Opt("--result", "JSON", "its result (or @FILE)"),
        Opt("--error", "MSG", "why it failed or is blocked"),
        Opt("--type", "T", "the kind of error"),
        Opt("--resume-with", "TEXT", "what to do first when the run resumes"),
        Opt("--title", "T", "the step's title"),
        Opt("--total", "N", "how many steps there will be below it"),
        Opt("--note", "N", "a note, also shown with the checkpoint"),
        *CURRENT,
    ),
    examples="""  leftoff step start collect
  leftoff step done collect --output urls.txt --result '{"urls": 12}'
  leftoff step fail publish --error "HTTP 500" --resume-with "ask ops whether the server is up"
  leftoff step done convert/post-20""",
)


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.steps import report_step

    return ctx.answer(report_step(ctx.project, ctx.caller, read_report(args), args.output))


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
