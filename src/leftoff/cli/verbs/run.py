"""``leftoff run FILE``: execute a workflow file; or only check it, or show in which order it would go."""

from __future__ import annotations

from leftoff.cli.arguments import assignments, positive
from leftoff.cli.options import Opt, Spec
from leftoff.cli.render.text import clean, step_name
from leftoff.errors import BadDefinition, Usage
from leftoff.operations.reports import usage_errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.operations.execution.workflow_file import RunRequest
    from leftoff.workflow.definition.model import Step, Workflow

SPEC = Spec(
    "run",
    "Run a workflow file, with a checkpoint after each step. If it is interrupted, `leftoff resume` "
    "continues it.\n\n"
    "If this workflow already has an unfinished run on this branch, you are asked what to do with it. "
    "Without a terminal the command exits with 7: pass --resume or --fresh. --check only validates the "
    "file; --graph shows what runs together.",
    usage="FILE",
    least=1,
    most=1,
    options=(
        Opt("--var", "K=V", "a variable, as in `leftoff set`; overrides the file", many=True),
        Opt("--branch", "B", "its branch (default: LEFTOFF_BRANCH, main)"),
        Opt("--run-id", "ID", "its id (default: NAME-YYYYMMDD-HHMMSS)"),
        Opt("--title", "T", "what this run is about"),
        Opt("--issue", "N", "the issue it is for; `#N` then names the run"),
        Opt("--resume", None, "continue the unfinished run of this workflow, if there is one"),
        Opt("--fresh", None, "start a new run; an unfinished one is marked abandoned"),
        Opt(
            "--reuse",
            None,
            "skip steps whose command, inputs, environment and outputs are as in an earlier run",
        ),
        Opt("--dry-run", None, "only say which steps would run, and why"),
        Opt("--detach", None, "run in the background, even if the terminal closes; prints the run's id"),
        Opt("--verbose", None, "show what steps print, even without a terminal"),
        Opt(
            "--max-parallel",
            "N",
            "how many steps and items may run at once (default: what the file says, else 4)",
        ),
        Opt("--check", None, "only check the file, and report mistakes"),
        Opt("--graph", None, "only show the batches: what runs together, and after what"),
        Opt("--yes", None, "answer yes to questions; never to an approval"),
    ),
    examples="""  leftoff run flow.yaml
  leftoff run flow.yaml --var topic=whales --title "Whales, second try"
  leftoff run flow.yaml --reuse           only what changed since an earlier run
  leftoff run flow.yaml --check           is it right?
  leftoff run flow.yaml --graph           what runs when?""",
)


def run(args: Args, ctx: Context) -> int:
    _exclusive(args)
    given = usage_errors(lambda: assignments(args.var))
    workflow, doubts = _review(args, ctx, given)
    from leftoff.operations.execution.workflow_file import check_agents

    if args.check or args.graph:
        check_agents(ctx.project, workflow)
        return _show(args, ctx, workflow, doubts)
    positive(args.max_parallel, "--max-parallel")
    from leftoff.cli.execute import execute

    request = _request(args, workflow, given)
    if args.dry_run:
        return _foresee(args, ctx, request)
    if args.detach:
        from leftoff.cli.detach import detach

        code = detach(ctx)
        if code is not None:
            return code
    return execute(ctx, request)


def _request(args: Args, workflow: Workflow, given: dict[str, Any]) -> RunRequest:
    from leftoff.model.ids import issue_id
    from leftoff.operations.execution.workflow_file import RunRequest

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
    from leftoff.workflow.definition.parse import review

    try:
        return review(args.rest[0], given=given)
    except BadDefinition:
        workflow = None
        if (args.resume or args.yes) and not (args.check or args.graph):
            from leftoff.operations.execution.workflow_file import definition_of_twin

            workflow = definition_of_twin(ctx.project, ctx.caller, args.rest[0], given)
        if workflow is None:
            raise
        return workflow, []


def _exclusive(args: Args) -> None:
    for one, other in (("check", "graph"), ("resume", "fresh"), ("detach", "check"), ("detach", "graph")):
        if getattr(args, one) and getattr(args, other):
            raise Usage(f"--{one} and --{other} cannot be combined.", hint="Give one of them.")


def _show(args: Args, ctx: Context, workflow: Workflow, doubts: list[str]) -> int:
    from leftoff.workflow.definition.graph import Graph

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
    from leftoff.operations.execution.workflow_file import foresee

    plan = foresee(ctx.project, request)
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
