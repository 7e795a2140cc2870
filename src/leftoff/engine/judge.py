"""Judge whether a run may continue: all checks, the verdict that they amount to, and the plan.

The engine has its own checks. A layer above that knows more of a run, the workflow that executes it or the protocol
that it follows, adds a `CheckProvider`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from leftoff.clock import ago
from leftoff.engine import run_checks, tree_checks
from leftoff.engine.findings import (
    ASK,
    BRING_BACK,
    LEVELS,
    REFUSE,
    RESUME,
    WARN,
    Finding,
    check_codes,
    exit_code,
    levels_of,
)
from leftoff.engine.project import Project
from leftoff.engine.resume_answers import DONE, ResumeRequest, Selection, select
from leftoff.engine.run_checks import World
from leftoff.engine.step_lifecycle import why_failed
from leftoff.errors import CannotResume, LeftoffError
from leftoff.model.codec import sha256, text
from leftoff.model.ids import parent_of, with_item
from leftoff.model.words import STEP_ENDED

Check = Callable[[World], Iterable[Finding]]


_CHECKS = (
    run_checks.integrity,
    run_checks.incomplete_write,
    run_checks.salvaged,
    run_checks.not_resumable,
    run_checks.times,
    run_checks.age,
    run_checks.progress,
    run_checks.lease,
    run_checks.criteria,
    run_checks.blocked,
    run_checks.prerequisites,
    run_checks.results,
    tree_checks.half_restored,
    tree_checks.outputs,
    tree_checks.files,
    tree_checks.git,
    tree_checks.issue,
    run_checks.blobs,
)
_LEFT_BY_A_STEP = ("outputs.missing", "outputs.changed", "variables.redacted", "result.redacted")
_ASKS_ABOUT_A_STEP = ("outputs.missing", "outputs.changed", "step.not_idempotent", "step.elsewhere")
_SHOWN = 3


class CheckProvider:
    """The checks of a layer above the engine, and what it knows of the run's steps. The last one knows best."""

    #: checks of the run as it is, for every request
    checks: Sequence[Check] = ()
    #: codes that are not a problem in this run
    dismisses: Collection[str] = ()
    #: why the run could not be executed
    problem: LeftoffError | None = None
    #: whether it executes the run, and so knows which values are needed
    executes = False

    def findings(self, world: World, selection: Selection) -> Iterable[Finding]:
        """Return what is found in view of what the user asks for."""
        return ()

    def known(self, world: World, selection: Selection) -> Mapping[str, tuple[str, str]]:
        """Return what becomes of steps that were in flight or decided, and why."""
        return {}

    def question(self, codes: Collection[str]) -> str | None:
        """Return the question that comes first if these findings need a person. Yes means: start fresh."""
        return None

    def layout(self, world: World) -> Any:
        """Return the run's steps (``steps``, ``leaves()``) as the definition has them by now; ``None``: as recorded."""
        return None

    def runs_once(self, path: str) -> bool:
        """Return whether a step is not safe to repeat."""
        return False


class Verdict:
    """The findings about a run at one version (`seq`, `digest`), what they allow, and what resuming would do.

    ``over``: what to say if nothing is left to do. Its findings then stop no resume, unless the run is damaged.
    """

    def __init__(
        self,
        world: World,
        request: ResumeRequest,
        selection: Selection,
        providers: Sequence[CheckProvider],
        found: list[Finding],
    ) -> None:
        self.world = world
        self.request = request
        self.selection = selection
        self.providers = providers
        self.over: str | None = None
        levels = world.settings.parsed("verify", levels_of)
        for finding in found:
            finding.set_level(levels)
            made_again = finding.code == "outputs.missing" and BRING_BACK not in finding.choices
            if made_again and self.runs_once(str(finding.subject)):
                finding.hint = (
                    "--accept outputs.missing continues without it. The step is not safe to repeat; if that is "
                    "fine, --yes --accept step.not_idempotent makes it again."
                )
        found = [finding for finding in found if finding.level != RESUME]
        self.findings = sorted(found, key=lambda finding: -LEVELS.index(finding.level))

    @property
    def seq(self) -> int:
        """Return the version of the head that was judged."""
        return int(self.world.row.seq)

    @property
    def verdict(self) -> str:
        """Return the worst level."""
        return max((finding.level for finding in self.findings), key=LEVELS.index, default=RESUME)

    @property
    def exit_code(self) -> int:
        return exit_code(self.findings)

    @property
    def plan(self) -> list[dict[str, Any]]:
        """Return what would be done with each leaf step, and why, as things are found and accepted by now."""
        if self.world.damage:
            return []
        layouts = (provider.layout(self.world) for provider in self.providers)
        layout = next((layout for layout in layouts if layout is not None), self.world)
        known: dict[str, tuple[str, str]] = {}
        for provider in reversed(self.providers):
            known.update(provider.known(self.world, self.selection))
        plan = make_plan(layout, self.findings, known, self.selection)
        if self.over is None:
            return plan
        over = {"action": "skip", "why": "the run is completed"}
        return [entry if entry["action"] == "skip" else {**entry, **over} for entry in plan]

    @property
    def problem(self) -> LeftoffError | None:
        """Return why the run could not be executed."""
        return next((p.problem for p in self.providers if p.problem is not None), None)

    @property
    def question(self) -> str | None:
        """Return the question that comes before all others if something needs a person."""
        codes = {finding.code for finding in self.findings if finding.level == ASK}
        asked = (provider.question(codes) for provider in self.providers)
        return next((question for question in asked if question is not None), None)

    def runs_once(self, path: str) -> bool:
        """Return whether a step is not safe to repeat."""
        return any(provider.runs_once(path) for provider in self.providers)

    def accept(self, codes: Collection[str]) -> None:
        """Make warnings of questions that are accepted by their codes."""
        for finding in self.findings:
            if finding.level == ASK and finding.code in codes:
                finding.level = WARN

    @property
    def stamp(self) -> str:
        """Return what identifies the questions as they are shown, before any is answered."""
        asked = [list(finding.asked) for finding in self.findings if finding.level in (ASK, REFUSE)]
        return sha256(text(asked).encode()).hexdigest()[:32]

    def refuse(self, hint: str) -> None:
        """Raise `CannotResume` if a finding refuses or needs a person. ``hint``: how ``{codes}`` are accepted."""
        if self.world.damage:
            raise self.world.damage[0][1]
        stops = [finding for finding in self.findings if finding.level == REFUSE]
        hint = stops[0].hint if stops else hint
        if not stops:
            stops = [finding for finding in self.findings if finding.level == ASK]
            hint = hint.format(codes=sorted({finding.code for finding in stops}))
        if stops:
            more = f" And {len(stops) - _SHOWN} more." if len(stops) > _SHOWN else ""
            told = " ".join(finding.message for finding in stops[:_SHOWN])
            raise CannotResume(f"{told}{more}", findings=stops, hint=hint)

    def to_json(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "verdict": self.verdict,
            "findings": [finding.to_json() for finding in self.findings],
            "run_id": self.world.run_id,
            "resume_from": next((entry["step"] for entry in plan if entry["action"] != "skip"), None),
            "plan": plan,
        }


def judge_run(
    project: Project,
    request: ResumeRequest,
    providers: Sequence[CheckProvider] = (),
    session: str | None = None,
    *,
    program: bool = False,
) -> Verdict:
    """Compare the world with a run, in view of what the user asks for. Nothing is written, and no lease is taken.

    ``session``: of the agent that may have the run. ``program``: a program asks, which takes the lease itself.
    """
    world = World(project, request, session)
    if world.damage:  # nothing else can be known
        return Verdict(world, request, select(world, request), providers, [*run_checks.integrity(world)])

    def runs_once(path: str) -> bool:
        return any(provider.runs_once(path) for provider in providers)

    own = [check for check in _CHECKS if not (program and check is run_checks.lease)]
    more = [check for provider in providers for check in provider.checks]
    found = [finding for check in (*own, *more) for finding in check(world)]
    if not program and not any(provider.executes for provider in providers):
        found += run_checks.redacted(world, request.variables)
    selection = select(world, request)
    dismissed = {code for provider in providers for code in provider.dismisses}
    found = [
        finding
        for finding in found
        if finding.code not in dismissed
        and not (finding.code in _LEFT_BY_A_STEP and finding.subject in selection.repeat)
    ]
    found += [finding for provider in providers for finding in provider.findings(world, selection)]
    asked = {finding.subject for finding in found if finding.code == "variables.redacted"}
    found = [f for f in found if f.code != "result.redacted" or f.subject not in asked]
    if not program:
        found += run_checks.again(world, selection, runs_once)
    verdict = Verdict(world, request, selection, providers, found)
    verdict.over = request.over
    for finding in verdict.findings if verdict.over is not None else ():
        if finding.level in (ASK, REFUSE) and not finding.code.startswith("integrity."):
            finding.level = WARN
    return verdict


def make_plan(
    layout: Any,
    findings: Iterable[Finding],
    known: Mapping[str, tuple[str, str]],
    selection: Selection,
) -> list[dict[str, Any]]:
    """Return one entry per leaf step, in declared order. ``known``: of steps that were in flight or decided."""
    asked = {
        finding.subject: finding
        for finding in findings
        if finding.subject is not None
        and finding.code in _ASKS_ABOUT_A_STEP
        and finding.level in (ASK, REFUSE)
    }
    plan, steps = [], layout.steps
    for path in layout.leaves():
        question, record = asked.get(path), steps.get(path, {})
        if question is not None:
            action, why = "ask", question.message
        elif path in selection.repeat:
            action, why = "run", "it will run again"
        else:
            action, why = known.get(path) or _intent(record)
            if path in known and action == "ask":
                action = "run"  # the question was accepted
            if selection.leaves_out(path) and action in ("run", "ask"):
                action, why = "skip", "it was not asked for"
        above = steps.get(parent_of(path))
        plan.append(with_item({"step": path, "action": action, "why": why}, path, record, above))
    return plan


def _intent(record: Mapping[str, Any]) -> tuple[str, str]:
    status = record.get("status")
    if status in DONE:
        when = record.get("completed_at")
        return "skip", f"it is {status}" + (f" since {when}" if when else "")
    if status == "failed" and record.get("allowed"):
        return "skip", f"it failed, which its definition allows: {why_failed(record)}"
    if status == "failed":
        return "run", f"it failed: {why_failed(record)}"
    if status == "running":
        return "run", "it was running, and its end is unknown"
    if status == "waiting":
        return "ask", f"it is waiting for {'a decision' if record.get('kind') == 'approval' else 'a person'}"
    if status == "blocked":
        return "ask", f"it is blocked: {why_failed(record)}"
    return "run", "it is next"


# -- a Python program that continues its run


def judge_for_program(project: Project, request: ResumeRequest, call: str) -> Verdict:
    """Return the verdict for a program. Raise `CannotResume` if a finding asks or refuses, and is not accepted.

    ``call``: the call of the program, up to where ``accept=`` goes.
    """
    accepted, run_id = check_codes(request.accept), request.target.row.run_id
    verdict = judge_run(project, request, program=True)
    verdict.accept(accepted)
    call = call.replace("{", "{{").replace("}", "}}")
    hint = f"{call}accept={{codes}}) continues anyway; `leftoff resume {run_id}` asks about each finding."
    try:
        verdict.refuse(hint)
    except CannotResume as error:
        if any(BRING_BACK in finding.choices for finding in verdict.findings):
            error.hint += (
                f" `leftoff resume {run_id} --yes` restores the copy; then start your program again."
            )
        error.hint += f" For a new run, end this one first: `leftoff finish {run_id} --status abandoned`."
        raise
    return verdict


def told_to_program(verdict: Verdict) -> Iterator[str]:
    """Yield what to print when a program continues a run: which, how old, how far; then a line for each warning."""
    world = verdict.world
    leaves = [path for path in world.steps if path not in world.inner]
    done = sum(world.steps.status(path) in STEP_ENDED for path in leaves)
    age = ago(run_checks.last_activity(world), world.now, words=True)
    how_far = f"{done} of {len(leaves)} steps done" if leaves else "no steps yet"
    yield f"continuing {world.run_id}, last active {age}, {how_far}."
    warnings = [finding for finding in verdict.findings if finding.level == WARN]
    yield from (finding.message for finding in warnings if not finding.code.startswith("git."))
    # One short line: a script is edited and started again all day.
    of_git = ", ".join(finding.code for finding in warnings if finding.code.startswith("git."))
    if of_git:
        yield f"git has changed since then ({of_git}); `leftoff verify {world.run_id}` shows how."
