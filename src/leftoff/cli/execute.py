"""`run FILE`: start a run of a workflow file, or go on with the one that is there."""

from __future__ import annotations

from leftoff.cli.arguments import asked
from leftoff.cli.drive import (
    Questions,
    attempts_folder,
    check_requirements,
    drive,
    interruptible,
    most_of,
    setting_of,
)
from leftoff.cli.prompts.ask import can_ask
from leftoff.cli.prompts.failures import decided
from leftoff.errors import BadDefinition, Conflict, NeedsPerson, NotFound
from leftoff.model.ids import check_run_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.engine.lifecycle.opening import Opening
    from leftoff.engine.read.find import Target
    from leftoff.store.base import View
    from leftoff.store.rows import RunRow
    from leftoff.workflow.definition.model import Workflow
    from leftoff.workflow.recovery.resume import Onward, Unanswered


def execute(args: Args, ctx: Context, workflow: Workflow, given: dict[str, Any]) -> int:
    """Execute a definition that is in order, with the variables that were given."""
    if args.run_id is not None:
        asked(lambda: check_run_id(args.run_id))
    twin = _twin(args, ctx, workflow)
    choice = _choice(args, ctx, twin) if twin is not None else "start"
    if choice == "resume" and twin is not None:
        from leftoff.cli.verbs.resume import resume
        from leftoff.engine.read.find import Target
        from leftoff.engine.resume.continue_run import Way

        return int(resume(Target(twin, None), Way(variables=given), (), ctx, workflow))
    if choice == "delete" and twin is not None:
        from leftoff.cli.verbs.rm import told
        from leftoff.operations.upkeep import remove_run

        return told(ctx, remove_run(ctx.project, twin))
    ask = Questions(ctx, ())
    check_requirements(ctx, workflow, ask, fresh=True)
    return _start(args, ctx, workflow, given, ask, twin)


def _twin(args: Args, ctx: Context, workflow: Workflow) -> RunRow | None:
    """The unfinished run that this would be a second one of. An id that is given names one run, and no other."""
    from leftoff.model.words import UNFINISHED

    if not ctx.store.exists():
        return None
    if args.run_id:
        row = ctx.store.read(lambda view: view.find_run(args.run_id))
        if row is None and not args.fresh:
            return None
        if row is None:
            return ctx.store.read(lambda view: _latest(view, args, ctx, workflow))
        if args.resume and row.status in UNFINISHED and row.workflow == workflow.name:
            return row
        raise Conflict(
            f"Run {args.run_id} exists already: {row.workflow}, {row.status}.",
            hint=f"`leftoff resume {args.run_id}` goes on with it; choose another id for a new run.",
        )
    return ctx.store.read(lambda view: _latest(view, args, ctx, workflow))


def _latest(view: View, args: Args, ctx: Context, workflow: Workflow) -> RunRow | None:
    """The newest unfinished run of this workflow and branch; of this title and issue, where they are given."""
    from leftoff.engine.read.find import twins

    return next(iter(twins(view, workflow.name, ctx.branch, args.title, _issue(args))), None)


def review_for_twin(args: Args, ctx: Context, given: dict[str, Any]) -> Workflow | None:
    """The definition, with the variables of the unfinished run that is to be resumed; ``None`` without such a run."""
    from leftoff.engine.read.definition import names_of
    from leftoff.model.words import UNFINISHED
    from leftoff.workflow.definition.parse import load

    if not (args.resume or args.yes) or not ctx.store.exists():
        return None
    where: dict[str, Any] = {"branch": ctx.branch, "status": UNFINISHED}
    for row in ctx.store.read(lambda view: view.list_runs(where, 50)):
        try:
            workflow = load(args.rest[0], given={*given, *names_of(ctx.store, row)})
        except BadDefinition:
            continue
        if workflow.name == row.workflow:
            return workflow
    return None


def _issue(args: Args) -> str | None:
    return args.issue.lstrip("#") if args.issue else None


def _choice(args: Args, ctx: Context, twin: RunRow) -> str:
    """What to do about an unfinished run: as told, or as the person at the terminal says."""
    if args.fresh:
        return "start"
    if args.resume or args.yes:
        return "resume"
    if not can_ask(ctx):
        raise NeedsPerson(
            f"Run {twin.run_id} of this workflow is unfinished ({twin.status}).",
            hint="`leftoff run FILE --resume` goes on with it, `leftoff run FILE --fresh` starts over.",
        )
    from leftoff.cli.prompts.resume_prompt import ask
    from leftoff.engine.read.find import Target
    from leftoff.engine.read.show import document

    target = Target(twin, None)
    found = document(ctx.store, target, ctx.now, ctx.limits)
    return ask(ctx, target, found)


def _start(
    args: Args, ctx: Context, workflow: Workflow, given: dict[str, Any], ask: Questions, twin: RunRow | None
) -> int:
    from leftoff.cli.progress import Info, observer
    from leftoff.workflow.definition.graph import Graph
    from leftoff.workflow.run.runner import start

    info = Info.of(workflow, Graph(workflow).batches(), most_of(ctx))
    with interruptible(), observer(ctx, info) as watching:
        setting = setting_of(ctx, workflow, watching, ask, _issue(args))
        if twin is not None:
            _abandon(ctx, twin)
        opening = _opening(args, ctx, workflow, given)
        alone = None if args.run_id else lambda view: _refuse_twin(_latest(view, args, ctx, workflow))
        runner = start(setting, workflow, opening, alone=alone)
        code = drive(ctx, runner, watching)
    return decided(ctx, runner, code)


def _refuse_twin(twin: RunRow | None) -> None:
    """Somebody started the same in this very moment."""
    if twin is not None:
        raise Conflict(
            f"Run {twin.run_id} of this workflow was started just now.",
            hint=f"`leftoff status` shows how it gets on, `leftoff resume {twin.run_id}` goes on with it.",
        )


def _abandon(ctx: Context, twin: RunRow) -> None:
    """Start fresh: the old run is not deleted; nothing of it runs on."""
    from leftoff.engine.lifecycle.finish import settle
    from leftoff.workflow.run.stop import forsake_attempts

    settle(
        ctx.store,
        lambda view: row_now(view, twin.run),
        "abandoned",
        ctx.now,
        project=ctx.project.folder,
        scrubber=ctx.redactor,
        note="abandoned: started afresh",
    )
    forsake_attempts(ctx.store, twin, attempts_folder(ctx), ctx.settings.run.grace)
    ctx.say(f"leftoff: {twin.run_id} is abandoned.")


def row_now(view: View, run: int) -> RunRow:
    """A run as it is now."""
    row = view.run_row(run)
    if row is None:
        raise NotFound("The run is gone: somebody removed it.")
    return row


def _opening(args: Args, ctx: Context, workflow: Workflow, given: dict[str, Any]) -> Opening:
    from leftoff.engine.config import project
    from leftoff.engine.lifecycle.opening import Opening

    facts = {
        **project.git_facts(ctx.project.folder),
        "issue": _issue(args),
        "description": workflow.description or None,
    }
    return Opening(
        workflow.name,
        title=args.title,
        branch=ctx.branch,
        run_id=args.run_id,
        variables={**workflow.vars, **given},
        facts=facts,
        context=ctx.project.surroundings(facts["issue"], facts["git_branch"]),
    )


def go_on(
    ctx: Context,
    target: Target,
    way: Onward,
    *,
    workflow: Workflow | None = None,
    accept: tuple[str, ...] = (),
) -> int:
    """Resume a run that a runner drives. ``workflow``: where its file was given."""
    from leftoff.cli.progress import Info, observer
    from leftoff.workflow.definition.graph import Graph
    from leftoff.workflow.recovery.resume import Unanswered, resume
    from leftoff.workflow.recovery.verdict import loaded

    ask = Questions(ctx, accept)
    found = loaded(ctx.store, target, ctx.project.folder, way.variables, workflow)
    if found is None or found.new is None:
        raise (found.problem if found is not None else None) or NotFound(
            "The run has no definition any more."
        )
    info = Info.of(found.new, Graph(found.new).batches(), most_of(ctx))
    with interruptible(), observer(ctx, info) as watching:
        setting = setting_of(ctx, found.new, watching, ask, target.row.issue)
        check_requirements(ctx, found.new, ask)
        try:
            runner = resume(setting, target, found, way, take_over=True)
        except Unanswered as error:
            if not ctx.args.json:
                raise
            return _unanswered(ctx, target, error)
        code = drive(ctx, runner, watching)
    return decided(ctx, runner, code)


def _unanswered(ctx: Context, target: Target, error: Unanswered) -> int:
    """For programs: what was found is a result, as every verdict is; the run is as it was."""
    found = {"verdict": error.finding.level, "findings": [error.finding.to_json()]}
    ctx.emit({"event": "verdict", **found, "run_id": target.row.run_id})
    ctx.emit({"event": "end", "run": ctx.info(target.row).to_json(), "exit": error.exit_code})
    return error.exit_code
