"""Drive a workflow: run, resume, verify."""

from __future__ import annotations

from leftoff.cli.context import Context
from leftoff.cli.execute import Terminal, detach, emit_end, execute, resume, show_verdict
from leftoff.cli.history_verbs import show_logs
from leftoff.cli.options import Args, assignments, positive, step_path
from leftoff.cli.text import clean, step_name
from leftoff.engine.find import Target
from leftoff.engine.findings import REFUSE, check_codes
from leftoff.engine.judge import Verdict
from leftoff.engine.resume_answers import foresee_answers
from leftoff.engine.resume_request import ResumeRequest
from leftoff.errors import BadDefinition, Usage, usage_errors
from leftoff.hints import Any
from leftoff.model.ids import issue_id
from leftoff.operations.resuming import find, judge, subtask_for, to_go_back_to, unmet_criteria
from leftoff.operations.run_reports import step_named
from leftoff.operations.runs import target
from leftoff.operations.workflow_runs import RunRequest, check_agents, definition_of_twin, foresee_run
from leftoff.workflow.definition import Graph, Step, Workflow
from leftoff.workflow.parse_definition import review

# -- run


def run_run(args: Args, ctx: Context) -> int:
    _exclusive(args)
    given = usage_errors(lambda: assignments(args.var))
    workflow, doubts = _review(args, ctx, given)
    if args.check or args.graph:
        check_agents(ctx.project, workflow)
        return _show_definition(args, ctx, workflow, doubts)
    positive(args.max_parallel, "--max-parallel")
    request = _run_request(args, workflow, given)
    if args.dry_run:
        return _foresee(args, ctx, request)
    if args.detach:
        code = detach(ctx)
        if code is not None:
            return code
    return execute(ctx, request)


def _run_request(args: Args, workflow: Workflow, given: dict[str, Any]) -> RunRequest:
    return RunRequest(
        workflow,
        given,
        title=args.title,
        issue=issue_id(args.issue),
        run_id=args.run_id,
        resume=bool(args.resume),
        fresh=bool(args.fresh),
        reuse=bool(args.reuse),
    )


def _review(args: Args, ctx: Context, given: dict[str, Any]) -> tuple[Workflow, list[str]]:
    """The definition. A variable that the run has which is to be resumed is as good as given."""
    try:
        return review(args.rest[0], given=given)
    except BadDefinition:
        workflow = None
        if (args.resume or args.yes) and not (args.check or args.graph):
            workflow = definition_of_twin(ctx.project, ctx.caller, args.rest[0], given)
        if workflow is None:
            raise
        return workflow, []


def _exclusive(args: Args) -> None:
    for one, other in (("check", "graph"), ("resume", "fresh"), ("detach", "check"), ("detach", "graph")):
        if getattr(args, one) and getattr(args, other):
            raise Usage(f"--{one} and --{other} cannot be combined.", hint="Give one of them.")


def _show_definition(args: Args, ctx: Context, workflow: Workflow, doubts: list[str]) -> int:
    graph = Graph(workflow)
    batches = graph.batches()
    if args.json:
        document: dict[str, Any] = {
            "ok": True,
            "workflow": workflow.name,
            "steps": len(graph.leaves),
            "batches": batches,
        }
        if args.graph:
            document["before"] = {path: sorted(graph.before[path]) for path in graph.leaves}
        ctx.emit({**document, "warnings": doubts})
        return 0
    for doubt in doubts:
        ctx.say(f"leftoff: {clean(doubt)}")
    size = f"{_count(len(graph.leaves), 'step')} in {_count(len(batches), 'batch', 'batches')}"
    if args.check:
        ctx.out(f"{clean(workflow.path)}: ok, {size}")
        return 0
    ctx.out(f"{clean(workflow.name)}: {size}")
    wide = len(str(len(batches)))
    for number, batch in enumerate(batches, 1):
        for index, path in enumerate(batch):
            ctx.out(f"{number if index == 0 else '':>{wide}}  {clean(path)}{_remark(workflow.by_path[path])}")
    return 0


def _foresee(args: Args, ctx: Context, request: RunRequest) -> int:
    """What each step would do, and why."""
    plan = foresee_run(ctx.project, request)
    if args.json:
        document = {
            "workflow": request.workflow.name,
            "dry_run": True,
            "plan": [one.to_json() for one in plan],
        }
        ctx.emit(document)
        return 0
    rows = [(one.action, step_name(one.step), clean(one.why)) for one in plan]
    wide = max(len(name) for _, name, _ in rows)
    for action, name, why in rows:
        ctx.out(f"{action:<4}  {name:<{wide}}  {why}")
    return 0


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _remark(step: Step) -> str:
    """What is special about a step."""
    told: list[str] = [step.kind] if step.kind in ("approval", "manual", "agent") else []
    if step.foreach is not None:
        told.append(f"for each {step.item_name}")
    if step.when:
        told.append("when")
    return f"  ({', '.join(told)})" if told else ""


# -- resume


def run_resume(args: Args, ctx: Context) -> int:
    positive(args.max_parallel, "--max-parallel")
    accepted = check_codes(args.accept)
    if args.from_step is not None and (args.only or args.failed):
        raise Usage(
            f"--from-step and {'--only' if args.only else '--failed'} cannot be combined.",
            hint="--from-step STEP runs it and every later step again; --only STEP… runs these and no others.",
        )
    named = ctx.word
    if args.list:
        return show_logs(to_go_back_to(ctx.project, ctx.caller, named, args.checkpoint), ctx)
    target = find(ctx.project, ctx.caller, named, args.checkpoint)
    request = _resume_request(args, ctx, target, accepted)
    if not args.dry_run and request.over is None:
        return resume(ctx, request)
    report = judge(ctx.project, ctx.caller, request)
    if not args.dry_run:
        report.accept(accepted)
        return _finished(report, ctx)
    foresee_answers(report)
    return show_verdict(ctx, report, plan=True)


def _resume_request(args: Args, ctx: Context, target: Target, accepted: tuple[str, ...]) -> ResumeRequest:
    first = args.from_step
    only, adds = _only_steps(ctx, target, args.only)
    return ResumeRequest(
        target,
        only=only,
        adds=adds,
        from_step=step_named(ctx.project, target.row, step_path(first)) if first is not None else None,
        failed=bool(args.failed),
        variables=assignments(args.var),
        accept=accepted,
        answers=_answers(args.answer),
        yes=bool(args.yes),
        restart=bool(args.restart),
    )


def _answers(given: list[str]) -> dict[str, str]:
    """What is chosen, by code and subject. A subject may have an equals sign in it, and a choice has none."""
    out = {}
    for word in given:
        name, mark, choice = word.rpartition("=")
        if not mark or not name or not choice:
            raise Usage(
                f"--answer takes CODE=CHOICE, not {word!r}.",
                hint="For example: --answer files.changed=restore",
            )
        check_codes([name.partition(":")[0]])
        out[name] = choice
    return out


def _only_steps(ctx: Context, target: Target, given: list[str]) -> tuple[list[str], dict[str, Any]]:
    """The steps that are named, and those of them that are new. A word may be several with commas between; an item as
    it is shown may have commas in it."""
    words = [each for word in given for each in ([word] if "[" in word else word.split(",")) if each]
    named = [step_named(ctx.project, target.row, step_path(each)) for each in words]
    found = [subtask_for(ctx.project, target.row, each) for each in named]
    return [step for step, _ in found], {path: how for _, new in found for path, how in new.items()}


def _finished(report: Verdict, ctx: Context) -> int:
    """A completed run has nothing left, whatever became of what it made."""
    row = report.world.row
    if report.verdict == REFUSE:
        Terminal(ctx).tell(report.findings, report)
        if ctx.args.json:
            emit_end(ctx, row, exit=report.exit_code)
        return report.exit_code
    unmet, steps = unmet_criteria(ctx.project, row)
    if ctx.args.json:
        emit_end(ctx, row, brief="", **({"unmet": unmet, "could_meet": steps} if unmet else {}))
        return 0
    ctx.out(report.over or "")
    if unmet:
        ctx.out(
            f"Not met: {', '.join(map(clean, unmet))}.\n"
            f"`leftoff resume {row.run_id} --only {clean(unmet[0])}` runs the step for it, or adds one.\n"
            "`--from-step STEP` does a step and the later ones again, `--only STEP` one alone. "
            f"Steps: {', '.join(map(step_name, steps)) or 'none'}."
        )
    return 0


# -- verify


def run_verify(args: Args, ctx: Context) -> int:
    request = ResumeRequest(
        target(ctx.project, ctx.caller, ctx.word),
        deep=bool(args.deep),
        resumes=False,
    )
    return show_verdict(ctx, judge(ctx.project, ctx.caller, request), plan=False)
