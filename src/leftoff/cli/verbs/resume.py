"""``leftoff resume`` (``continue``, ``reprendre``): go on with a run, from where it is or from further back."""

from __future__ import annotations

from functools import partial

from leftoff.cli.arguments import asked, assignments, positive, step_path
from leftoff.cli.options import Opt, Spec
from leftoff.cli.prompts.answers import FirstQuestion, carry_out, decide, tell
from leftoff.cli.render.text import clean, clean_lines
from leftoff.cli.render.verdict import page, report_of
from leftoff.dialects.verdict import dialect_of
from leftoff.engine.config.caller import CALLER
from leftoff.engine.read.definition import definition_of
from leftoff.engine.resume.continue_run import Way, driver_of, from_step, with_outer
from leftoff.engine.resume.finding import REFUSE
from leftoff.engine.resume.plan import Wish
from leftoff.errors import Ambiguous, CannotResume, Conflict, NoCheckpoint, NotFound, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.cli.prompts.answers import Answers
    from leftoff.dialects.core.base import Dialect
    from leftoff.engine.read.find import Target
    from leftoff.engine.resume.verdict import Report
    from leftoff.store.base import View
    from leftoff.store.rows import RunRow
    from leftoff.workflow.definition.model import Workflow

SPEC = Spec(
    "resume",
    "Go on with a run. One of a workflow file is executed to its end: what still runs is followed, what ended\n"
    "meanwhile is taken in, the rest is done. Any other is marked running, and the brief is printed.\n"
    "Without REF, the latest unfinished run of the branch. With an older version it goes back to it in place; the\n"
    "history is kept. Where finished steps would run again, it asks first. `continue` and `reprendre` are the same.\n"
    "The world is checked first, as `leftoff verify` does it: what refuses ends it (exit 4, 5, 6), what needs a\n"
    "person is asked (without a terminal: exit 7), the rest is said; where nothing is found, nothing is asked.",
    usage="[REF]",
    most=1,
    options=(
        Opt(
            "--checkpoint",
            "ID",
            "go back to this checkpoint (an id, the start of one, or a protocol's own id)",
        ),
        Opt("--from-step", "STEP", "this step and every later one are to be done again"),
        Opt("--failed", None, "do only what failed"),
        Opt("--only", "STEP", "do only these steps, also where they are done", many=True, greedy=True),
        Opt("--accept", "CODE", "go on in spite of this finding", many=True),
        Opt("--yes", None, "answer its questions: what is gone is made again, what differs stays"),
        Opt("--dry-run", None, "only say what was found, and what would be done with each step"),
        Opt("--restart", None, "end what still runs of its steps instead of following it"),
        Opt("--max-parallel", "N", "how many steps run at once"),
        Opt("--list", None, "only list the checkpoints to resume from"),
        Opt("--var", "K=V", "set a variable, as for `leftoff set`", many=True),
        Opt("--run", "RUN", "the run that is meant, like REF", filled=True),
        Opt("--branch", "B", "the branch to look for it on (default: LEFTOFF_BRANCH, main)", filled=True),
    ),
    examples="""  leftoff resume                          the latest unfinished run of this branch
  leftoff resume --list                   what there is to go back to
  leftoff resume @~1                      one checkpoint back
  leftoff resume --dry-run                what was found, and what would be done
  leftoff resume --accept git.branch_other
  leftoff resume --only build test        these two, and nothing else
  leftoff resume --from-step test --yes   test and everything after it again""",
)

_SHOWN = 6


def run(args: Args, ctx: Context) -> int:
    from leftoff.engine.resume.finding import check_codes

    positive(args.max_parallel, "--max-parallel")
    accepted = check_codes(args.accept)
    if args.from_step is not None and (args.only or args.failed):
        raise Usage(
            f"--from-step and {'--only' if args.only else '--failed'} say different things.",
            hint="--from-step STEP does it and every later one again; --only STEP… does these, and no others.",
        )
    target = find(args, ctx)
    if args.list:
        from leftoff.cli.verbs.log import show_log

        return show_log(target, args, ctx)
    further_back = args.from_step is not None or args.only
    if target.row.status == "completed" and target.version is None and not further_back:
        return finished(target, ctx)
    older = target.version is not None and target.version.seq != target.row.seq
    way = Way(target.seq if older else None, _step(args), assignments(args.var))
    return resume(target, way, accepted, ctx)


def resume(
    target: Target, way: Way, accepted: Collection[str], ctx: Context, workflow: Workflow | None = None
) -> int:
    """Check the world, ask what must be asked, and go on. ``workflow``: where its file was given."""
    report = report_of(ctx, target, given=way.variables, workflow=workflow)
    wish = _wish(report, way, target, ctx)
    report.wish(wish)
    if getattr(ctx.args, "dry_run", False):
        report.accept(accepted)
        return _dry(report, ctx)
    problem = report.drive.problem
    if problem is not None and report.exit_code == CannotResume.exit_code:
        raise problem
    driven = definition_of(ctx.store, target.row) is not None
    dialect = dialect_of(target.row, ctx.project.folder, ctx.settings)
    answers = _answers(ctx, report, accepted, target, dialect, driven)
    if answers is None:
        if ctx.args.json:
            ctx.emit({"event": "end", "run": ctx.info(target.row).to_json()})
        return report.exit_code
    way.variables.update(answers.given)
    way.repeat = frozenset(answers.again) | (wish.repeat if way.step is None else frozenset())
    if dialect is not None and not _begin(dialect, target, ctx):
        return 0
    if driven:
        return _drive(target, way, wish, report, answers, ctx, workflow)
    driver_of(ctx.store, target, ctx.now, session())  # somebody may have taken it while a question was open
    carry_out(target, report, answers, ctx)
    return go_on(target, way, ctx)


def _answers(
    ctx: Context,
    report: Report,
    accepted: Collection[str],
    target: Target,
    dialect: Dialect | None,
    driven: bool,
) -> Answers | None:
    """What to go on with. Where something needs a person, a protocol may have a question that comes first."""
    first = None
    if dialect is not None and dialect.corrupted is not None:
        from leftoff.cli.prompts.protocol import start_fresh

        first = FirstQuestion(dialect.corrupted, partial(start_fresh, dialect, target, ctx))
    quiet = ("definition.changed",) if driven else ()
    return decide(ctx, report, accepted, quiet=quiet, first=first)


def _begin(dialect: Dialect, target: Target, ctx: Context) -> bool:
    from leftoff.cli.prompts.protocol import begin

    return begin(dialect, target, ctx)


def _wish(report: Report, way: Way, target: Target, ctx: Context) -> Wish:
    """What --from-step, --only and --failed ask for, as steps."""
    steps, args = report.world.steps, ctx.args
    restart = bool(getattr(args, "restart", None))
    if way.step is not None:
        return Wish(from_step(steps, way.step, target.row.run_id), restart=restart)
    named = [step_path(step) for word in getattr(args, "only", ()) for step in word.split(",") if step]
    if getattr(args, "failed", False):
        named += [path for path in report.world.leaves() if steps[path].get("status") == "failed"]
        if not named:
            raise NotFound(
                f"No step of run {target.row.run_id} has failed.", hint="Leave out --failed to go on."
            )
    elif not named:
        return Wish(restart=restart)
    for step in named:
        from_step(steps, step, target.row.run_id)  # says which there are, where there is none
    wanted = with_outer(steps, named)
    done = {path for path in named if steps.get(path, {}).get("status") in ("completed", "skipped")}
    _check_needs(report, wanted)
    repeat = with_outer(steps, done) & set(report.world.leaves()) if done else ()
    return Wish(repeat, wanted, restart=restart)


def _check_needs(report: Report, wanted: Collection[str]) -> None:
    """A step whose needs are neither done nor among the wanted could never begin."""
    graph = report.world.records.get("context", {}).get("graph")
    needs = graph.get("needs") if isinstance(graph, dict) else None
    for path in sorted(wanted):
        for other in (needs or {}).get(path, ()):
            status = report.world.steps.status(other) or "completed"
            if other not in wanted and status not in ("completed", "skipped"):
                raise Conflict(
                    f"Step {path} needs {other}, which is {status}.",
                    hint=f"Name it too: --only {other} {path}",
                )


def _dry(report: Report, ctx: Context) -> int:
    """What would be done, and nothing is."""
    if ctx.args.json:
        ctx.emit(report.to_json())
    else:
        screen = ctx.screen()
        screen.show(page(report, screen, plan=True))
    return report.exit_code


def _drive(
    target: Target,
    way: Way,
    wish: Wish,
    report: Report,
    answers: Answers,
    ctx: Context,
    workflow: Workflow | None,
) -> int:
    """A run of a workflow file: back to where it shall go on from, then on to its end."""
    from leftoff.cli import execute
    from leftoff.workflow.recovery.resume import Onward

    onward = Onward(
        way.variables,
        again=way.step,
        repeat=way.repeat,
        only=wish.only,
        agreed=lambda guard: carry_out(target, report, answers, ctx, guard),
    )
    return execute.go_on(ctx, target, onward, workflow=workflow, accept=tuple(answers.accepted))


def session() -> str | None:
    return CALLER.session


def _step(args: Args) -> str | None:
    return step_path(args.from_step) if args.from_step is not None else None


def find(args: Args, ctx: Context) -> Target:
    """The run and version that is meant; which of several is taken is said."""
    from leftoff.engine.read.find import Target, resolve
    from leftoff.engine.write.report import need_store

    named = args.rest[0] if args.rest else None
    if args.checkpoint is not None:
        if named is not None or args.run:
            base = ctx.target(named or args.run).row.run_id
            return ctx.target(f"{base}@{args.checkpoint}")
        target = ctx.target(args.checkpoint)
        if target.version is None:
            raise NoCheckpoint(f"There is no checkpoint {args.checkpoint}.")
        return target
    if named is not None:
        if args.dry_run or args.list:
            return ctx.target(named, lambda view: latest(view, ctx))
        ctx.bring_back(named)
        return resolve(ctx.store, named, lambda view: latest(view, ctx))
    need_store(ctx.store)
    return Target(ctx.store.read(lambda view: latest(view, ctx)), None)


def latest(view: View, ctx: Context) -> RunRow:
    """The current run, and where there are several the latest, which is said."""
    try:
        return ctx.current_in(view)
    except Ambiguous as error:
        if getattr(ctx.args, "run", None) or CALLER.run:
            raise
        row = ctx.current_in(view, latest=True)
        others = [name for name in error.candidates if name != row.run_id]
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        ctx.say(
            f"leftoff: branch {clean(row.branch)} has {len(others) + 1} unfinished runs; taking the latest, "
            f"{row.run_id}.\nThe others: {', '.join(others[:_SHOWN])}{more}."
        )
        return row


def finished(target: Target, ctx: Context) -> int:
    """A completed run has nothing left, whatever became of what it made."""
    row, report = target.row, report_of(ctx, target)
    report.rest()
    if ctx.args.dry_run:
        return _dry(report, ctx)
    if report.verdict == REFUSE:
        tell(ctx, report.findings, report)
        return report.exit_code
    unmet = _unmet(target, ctx)
    steps = (
        [path for path in dict.fromkeys(unmet.values()) if path]
        if all(unmet.values())
        else _steps(target, ctx)
    )
    if ctx.args.json:
        _emit(target, "", ctx, **({"unmet": [*unmet], "could_meet": steps} if unmet else {}))
        return 0
    ctx.out(f"Run {row.run_id} is completed: nothing is left to do.")
    if unmet:
        ctx.out(
            f"Not met: {', '.join(map(clean, unmet))}.\n"
            f"`leftoff resume {row.run_id} --from-step STEP` does a step and the later ones again, `--only STEP` one\n"
            f"alone. Steps: {', '.join(map(clean, steps)) or 'none'}."
        )
    return 0


def _unmet(target: Target, ctx: Context) -> dict[str, str | None]:
    """The criteria that are not met, each with the step that could meet it, where that is known."""
    from leftoff.engine.read.state import read

    out: dict[str, str | None] = {}
    for key, value in read(ctx.store, target.row.run, target.row.run_id, "criterion").items():
        about = value.plain if isinstance(value.plain, dict) else {"met": value.plain}
        if about.get("met") is False:
            step = about.get("step")
            out[key] = step if isinstance(step, str) else None
    return out


def _steps(target: Target, ctx: Context) -> list[str]:
    from leftoff.engine.read.show import in_order
    from leftoff.engine.read.state import read

    values = read(ctx.store, target.row.run, target.row.run_id, "step")
    return in_order({path: value.plain for path, value in values.items()})


def go_on(target: Target, way: Way, ctx: Context) -> int:
    from leftoff.engine.read.find import Target
    from leftoff.engine.resume.continue_run import pick_up

    given = asked(
        lambda: pick_up(
            ctx.store, target, way, ctx.now, scrubber=ctx.redactor, session=session(), guard=ctx.guard()
        )
    )
    ctx.say_redacted(given)
    return _tell(Target(target.row, None), ctx)


def _tell(target: Target, ctx: Context) -> int:
    from leftoff.engine.read.brief import brief

    text = brief(ctx.store, target, ctx.now, ctx.project.folder)
    if ctx.args.json:
        _emit(target, text, ctx)
    else:
        ctx.out(clean_lines(text))
    return 0


def _emit(target: Target, text: str, ctx: Context, **more: object) -> None:
    """The last event, which is also the run."""
    run = ctx.info(target.row).to_json()
    ctx.emit({**run, "event": "end", "run": run, "brief": text, **more})
