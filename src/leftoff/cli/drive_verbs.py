"""Run a workflow file: run."""

from __future__ import annotations

from leftoff.cli.context import Context
from leftoff.cli.execute import detach, execute
from leftoff.cli.options import Args, assignments, positive
from leftoff.cli.text import clean, step_name
from leftoff.errors import BadDefinition, Usage, usage_errors
from leftoff.hints import Any
from leftoff.model.ids import issue_id
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
