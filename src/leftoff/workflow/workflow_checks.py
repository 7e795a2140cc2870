"""Judge a run of a workflow file: its definition, its requirements, and what was in flight when its driver died.

An exit code that was written is believed: nothing of the attempt runs any more, wherever it ran. A process that still
runs is followed. An attempt that never began counts for nothing. If it is not known how a command ended, it runs
again: a file that exists may be half written. A step that is not safe to repeat is for a person to judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from leftoff.clock import millis
from leftoff.engine.approvals import ask_again, how, is_rejected
from leftoff.engine.find import Target
from leftoff.engine.findings import REFUSE, UNTRUSTED, WARN, Finding
from leftoff.engine.imported_runs import may_run
from leftoff.engine.judge import CheckProvider, make_plan
from leftoff.engine.project import Project
from leftoff.engine.quoting import source_of
from leftoff.engine.resume_answers import DONE, Selection
from leftoff.engine.run_checks import World
from leftoff.engine.run_reader import definition_of, read_collection
from leftoff.engine.settings import CALLER, outside
from leftoff.errors import LeftoffError
from leftoff.host import UNKNOWN, scope
from leftoff.model.changes import NOTHING
from leftoff.model.codec import marks
from leftoff.model.ids import shown_step, step_word
from leftoff.store.rows import Attempt
from leftoff.workflow import process_groups as groups
from leftoff.workflow.actions import existing, outputs_of
from leftoff.workflow.attempt_folder import AttemptFolder, Exit
from leftoff.workflow.definition import Graph, StepDefinition, Workflow, compare
from leftoff.workflow.parse_definition import Definitions
from leftoff.workflow.run_state import RunState, item_order, missing
from leftoff.workflow.template_check import mentioned
from leftoff.workflow.templates import Templates

RUN, ADOPT, REATTACH, ASK, FORGET = "run", "adopt", "reattach", "ask", "forget"
TAKEN = (ADOPT, REATTACH)  # what an earlier driver's attempt did, or does, is this one's
NOT_IDEMPOTENT, ELSEWHERE = "step.not_idempotent", "step.elsewhere"
# Errors of steps of which it is not known how far they came.
CUT_OFF = ("killed", "timeout", "signal", "damaged")

_GO_ON = "Finished steps do not run again; --accept definition.changed resumes anyway."


def definitions_of(
    project: Project, target: Target, given: Mapping[str, Any] = {}, workflow: Workflow | None = None
) -> Definitions | None:
    """Return the definition of a run at a version, then and now; ``None`` if it is not a run of a workflow file.

    ``given``: variables that are set. ``workflow``: the definition from now on, if the user named its file.
    """
    row, seq = target.row, target.version.seq if target.version is not None else None
    known = definition_of(project.store, row, seq)
    if known is None:
        return None
    path = str(known.get("path") or "")
    leads_out = "\0" in path or (not CALLER.trusts(project.folder) and outside(project.folder, path) != "")
    strange = leads_out and bool(project.store.read(lambda view: source_of(view, row)))
    names = {*given, *read_collection(project.store, row.run, row.run_id, "variable", seq)}
    return Definitions(known, project.folder, names, workflow, strange=strange)


class WorkflowChecks(CheckProvider):
    """The checks of one run of a workflow file. ``given``: variables that are set again."""

    executes = True

    def __init__(self, definitions: Definitions, store_folder: str, given: Mapping[str, Any]) -> None:
        self.definitions = definitions
        self.problem = definitions.problem
        self.old, self.new = definitions.old, definitions.new
        self._path = definitions.path
        self._folder = store_folder
        self._given = given
        self._looked: tuple[Selection, list[Orphan], list[Attempt]] | None = None
        self._graph: Graph | None = None
        self.checks = (self._requirements,)

    def runs_once(self, path: str) -> bool:
        step = defined_step(self.new, path, {"item": None}) if self.new is not None else None
        return step is not None and not step.idempotent

    def _requirements(self, world: World) -> Iterator[Finding]:
        if self.new is None:
            return
        for what in missing(self.new, world.project):
            message = f"The workflow needs something that is missing: {what}."
            yield Finding("prerequisite.missing", message, "Provide it, then try again.", what)
        absent = [name for name in self.new.secrets if not CALLER.has(name)]
        if absent:
            yield Finding(
                "variables.redacted",
                f"The workflow needs secrets that are not in the environment: {', '.join(absent)}.",
                f"Secrets are never stored. Set {absent[0]} in the environment.",
                absent[0],
                choices=("type them", "stop"),
                secrets=tuple(absent),
            )

    def findings(self, world: World, selection: Selection) -> Iterator[Finding]:
        if self.new is None:
            wrong = self.problem or LeftoffError("The workflow file cannot be read.")
            yield Finding("definition.changed", wrong.message, wrong.hint, self._path, level=REFUSE)
            return
        if not (
            self.definitions.is_named
            or CALLER.trusts(world.project)
            or may_run(world.store, world.row, self.new.digest)
        ):
            yield Finding(
                UNTRUSTED,
                f"{world.run_id} was not started here by you, and would run what its workflow says:",
                f"`leftoff trust`, or yes here, trusts it; `leftoff resume {world.run_id} --trust` does so once.",
                self._path,
                diff=self.new.text,
                digest=self.new.digest,
            )
        yield from self._definition(world, selection, self.new)
        yield from self._redacted(world, selection, self.new)
        yield from self.in_doubt(world, selection)
        yield from self._waiting(world, selection, self.new)
        for path, record in world.steps.open.items():  # a rejection stands until a person asks for it again
            if is_rejected(record) and not (path in selection.repeat or selection.leaves_out(path)):
                rest = ", and what comes after it is not done" if self._held_up(world, path) else ""
                hint = f"`{ask_again(world.run_id, path)}` asks again."
                yield Finding("step.rejected", f"Step {shown_step(path)} was rejected{rest}.", hint, path)

    def _definition(self, world: World, selection: Selection, new: Workflow) -> Iterator[Finding]:
        """Compare the workflow file: a change of later steps is a warning, one of finished steps a question."""
        if self.definitions.gone:
            gone = f"{self._path} {self.definitions.gone}; the run's own copy of it is used."
            yield Finding("definition.changed", gone, "", self._path, level=WARN)
        if self.old is new:
            return
        what = f"{self._path} changed since the run started:"
        if self.old is None:
            told = f"{what} what it was is not known (a text with a secret in it is not stored)."
            yield Finding("definition.changed", told, _GO_ON, self._path)
            return
        done = self._done(world, selection)
        done |= {path.rpartition("/")[0] for path in done if "item" in world.steps[path]}
        done |= {orphan.step.path for orphan in self.look(world, selection)[0] if orphan.action in TAKEN}
        differs = compare(self.old, new, done)
        if differs:
            hint, level = (_GO_ON, "") if differs.doubtful else ("", WARN)
            if differs.finished:
                again = f"leftoff resume {world.run_id} --from-step {step_word(differs.finished[0])}"
                hint += f" `{again}` runs that step and all later ones again."
            yield Finding("definition.changed", f"{what} {differs.told()}.", hint, self._path, level=level)

    def _done(self, world: World, selection: Selection) -> set[str]:
        return {path for path in world.steps if world.steps.status(path) in DONE} - selection.repeat

    def _redacted(self, world: World, selection: Selection, new: Workflow) -> Iterator[Finding]:
        """Find secret variables and results that the remaining steps mention, and that were not given again."""
        absent = [name for name in world.redacted if name not in self._given]
        lost = [
            path
            for path, record in world.steps.open.items()
            if record.get("status") in DONE and path not in selection.repeat and marks(record.get("result"))
        ]
        if not (absent or lost):
            return
        done, templates, used, texts = self._done(world, selection), Templates(), set[str](), list[str]()
        for step in new.leaves():
            if step.path not in done and not selection.leaves_out(step.path):
                found = mentioned(templates, step)
                used |= found
                texts += [str(step.key_facts())] if "results" in found else []
        for name in absent:
            if name in used:
                message = f"The variable {name} is a secret and was not stored."
                hint = f"Give it again: --var {name}=…"
                yield Finding("variables.redacted", message, hint, name, secrets=(name,))
        for path in sorted(lost):
            if any(path in text or path.rpartition("/")[2] in text for text in texts):
                has = "has a secret in it, which was not stored, and is needed"
                message = f"The result of step {shown_step(path)} {has}."
                hint = f"`leftoff resume {world.run_id} --from-step {step_word(path)}` runs that step again."
                yield Finding("variables.redacted", message, hint, path)

    def look(
        self, world: World, selection: Selection, attempts: list[Attempt] | None = None
    ) -> tuple[list[Orphan], list[Attempt]]:
        """Return the attempts of steps that were in flight, judged; and those that just end.

        ``attempts``: as they are by now. Without them, the world's are looked at once for each selection.
        """
        if self.new is None:
            return [], []
        if self._looked is not None and self._looked[0] is selection and attempts is None:
            return self._looked[1:]
        back, known = not world.is_head, world.attempts if attempts is None else attempts
        found, strays = orphans(world.steps, self.old or self.new, self.new, known, self._folder, back=back)
        state: RunState | None = None
        for orphan in found:
            restarted = selection.restart and orphan.action == REATTACH
            if back or restarted or orphan.unit in selection.repeat:
                orphan.end()
                continue
            is_unit = orphan.step.foreach is None or orphan.unit != orphan.step.path
            if orphan.action == ADOPT and orphan.step.outputs and is_unit:
                state = state or self._state(world)
                self._look_at_outputs(state, orphan)
        self._looked = selection, found, strays
        return found, strays

    def _state(self, world: World) -> RunState:
        assert self.new is not None
        state = RunState(self.new, world.project, world.store, world.row.run, world.run_id, world.seq)
        state.overlay = dict(self._given)
        state.load()
        return state

    def _look_at_outputs(self, state: RunState, orphan: Orphan) -> None:
        """Let a step run again if its declared outputs are not there. Nothing is executed."""
        step = orphan.step
        item = state.item(orphan.unit) if orphan.unit != step.path else NOTHING
        try:
            outputs, cwd = outputs_of(state, step, item)
            existing(state.project, cwd, outputs)
        except LeftoffError as error:
            orphan.again(f"it ended with exit code 0: {error.message.rstrip('.')}")

    def in_doubt(self, world: World, selection: Selection) -> Iterator[Finding]:
        """Ask about steps in flight, or cut off, that are not safe to repeat."""
        if self.new is None:
            return
        asked = {
            orphan.unit: (orphan.why, orphan.code or NOT_IDEMPOTENT) if orphan.action == ASK else None
            for orphan in self.look(world, selection)[0]
        }
        for path, record in world.steps.open.items():
            if step_was_cut_off(record) and path not in asked:
                step = defined_step(self.new, path, record)
                if step is not None and not step.idempotent:
                    asked[path] = "it was cut off, and it is not safe to repeat", NOT_IDEMPOTENT
        for path, doubt in asked.items():
            if doubt is not None and not selection.leaves_out(path):
                why, code = doubt
                hint = (
                    f"Look whether it is done. `leftoff step done {step_word(path)} --run {world.run_id}` says so; "
                    f"`leftoff resume {world.run_id} --accept {code}` runs it again."
                )
                yield Finding(code, f"Step {shown_step(path)}: {why}.", hint, path)

    # -- people

    def _waiting(self, world: World, selection: Selection, new: Workflow) -> Iterator[Finding]:
        """Report steps that wait for a person: a question if nothing else can be done before, else a warning."""
        waiting = [
            path
            for path, record in world.steps.open.items()
            if record.get("status") == "waiting"
            and new.find(path) is not None
            and not (path in selection.repeat or selection.leaves_out(path) or _is_over(record, world.now))
        ]
        level = WARN if waiting and self._goes_on(world, selection, waiting) else ""
        for path in waiting:
            if world.steps[path].get("kind") == "approval":
                what, hint = "a decision", how(world.run_id, path)
            else:
                what, hint = "a person", f"leftoff step done {step_word(path)} --run {world.run_id}"
            message = f"Step {shown_step(path)} is waiting for {what}."
            yield Finding("step.waiting", message, f"`{hint}`", path, level=level)

    def _after(self, path: str) -> set[str]:
        assert self.new is not None
        self._graph = self._graph or Graph(self.new)
        return set(self._graph.after(path))

    def _goes_on(self, world: World, selection: Selection, waiting: list[str]) -> bool:
        """Return whether something can be done before a person has decided."""
        behind = {path for leaf in waiting for path in self._after(leaf)}
        plan = make_plan(self.layout(world), (), self.known(world, selection), selection)
        todo = (entry["step"] for entry in plan if entry["action"] not in ("skip", "ask"))
        return any(path not in behind and path.rpartition("/")[0] not in behind for path in todo)

    # -- the plan

    def known(self, world: World, selection: Selection) -> dict[str, tuple[str, str]]:
        """Return what would be done about each step that was in flight, or was decided, and why."""
        known = {
            orphan.unit: ("run" if orphan.action == FORGET else orphan.action, orphan.why)
            for orphan in self.look(world, selection)[0]
        }
        for path, record in world.steps.open.items():
            if path in selection.repeat:
                continue
            if is_rejected(record):
                known[path] = "skip", "it was rejected"
            elif record.get("status") == "waiting" and _is_over(record, world.now):
                known[path] = "skip", "it is rejected: its deadline has passed"
            else:
                continue
            known = {**self._held_up(world, path), **known}
        return known

    def _held_up(self, world: World, rejected: str) -> dict[str, tuple[str, str]]:
        """Return what is not done because of a rejection: all that is left, or what needs it, as `on_failure` says."""
        step = self.new.find(rejected) if self.new is not None else None
        if step is None or step.on_failure == "continue":
            return {}
        stops, behind = step.on_failure == "stop", self._after(rejected)
        left = [path for path in self.layout(world).leaves() if world.steps.status(path) not in DONE]
        why = (
            f"{rejected} is rejected, which stops the run"
            if stops
            else f"it needs {rejected}, which is rejected"
        )
        held = (path for path in left if stops or path in behind or path.rpartition("/")[0] in behind)
        return {path: ("skip", why) for path in held if path != rejected}

    def layout(self, world: World) -> DefinedSteps | World:
        return DefinedSteps(self.new, world.steps) if self.new is not None else world


class DefinedSteps:
    """The steps that a definition has by now, and the items that are known of them."""

    def __init__(self, workflow: Workflow, steps: Mapping[str, dict[str, Any]]) -> None:
        self.steps = steps
        self._workflow = workflow

    def leaves(self) -> list[str]:
        defined = [*self._workflow.leaves()]
        fans = {step.path for step in defined if step.foreach is not None}
        below: dict[str, list[str]] = {}
        for path in self.steps if fans else ():
            leaf = path.rpartition("/")[0]
            if leaf in fans and "item" in self.steps[path]:
                below.setdefault(leaf, []).append(path)
        for items in below.values():
            items.sort(key=lambda path: item_order(self.steps[path]))
        return [path for step in defined for path in below.get(step.path, [step.path])]


def _is_over(record: Mapping[str, Any], now: int) -> bool:
    until = millis(record.get("waits_until"))
    return until is not None and now > until


# -- what was in flight


class Orphan:
    """An attempt without a driver: what to do about it (``action``), and why.

    ``ends``: it just ends, as its step is to be done again.
    """

    def __init__(self, attempt: Attempt, step: StepDefinition, folder: AttemptFolder) -> None:
        self.attempt = attempt
        self.unit: str = attempt.step
        self.step = step
        self.folder = folder
        self.action = RUN
        self.why = ""
        self.code: str | None = None  # of the finding, where a person must decide
        self.exit: Exit | None = None  # how it ended, where that is known
        self.ends = False

    def judged(self, action: str, why: str, code: str | None = None) -> Orphan:
        self.action, self.why, self.code = action, why, code
        return self

    def again(self, why: str) -> Orphan:
        """Do it again; if it is not safe to repeat, a person decides."""
        if self.step.idempotent:
            return self.judged(RUN, why)
        return self.judged(ASK, f"{why}, and it is not safe to repeat", NOT_IDEMPOTENT)

    def end(self) -> None:
        """Its step is done again, whatever this attempt did or does; if that is not safe, a person decides."""
        if self.action in (REATTACH, ASK):
            self.again("it was in flight")
        elif self.action == ADOPT:
            self.again(self.why)
        self.ends = True


def orphans(
    steps: Mapping[str, Mapping[str, Any]],
    old: Workflow,
    new: Workflow,
    attempts: Iterable[Attempt],
    store_folder: str,
    *,
    back: bool = False,
) -> tuple[list[Orphan], list[Attempt]]:
    """Return the attempts of steps that were in flight, judged; and those that the records know nothing of.

    ``back``: the records are those of an older version, so all attempts are to end.
    """
    found, strays = [], []
    for attempt in attempts:
        if attempt.ended_at is not None:
            continue
        record = steps.get(attempt.step, {})
        step = defined_step(new, attempt.step, record)
        open_ = attempt.number == attempt.current if back else _in_flight(attempt, record)
        if step is None or not open_ or not (back or _fits(old, step, attempt, record)):
            strays.append(attempt)
        else:
            found.append(
                judge_attempt(Orphan(attempt, step, groups.attempt_folder_of(attempt, store_folder)))
            )
    return found, strays


def step_was_cut_off(record: Mapping[str, Any]) -> bool:
    """Return whether a step failed so that it is not known how far it came, and was not tried since."""
    error = record.get("error")
    return (
        record.get("status") in ("failed", "pending")
        and not record.get("allowed")
        and isinstance(error, dict)
        and error.get("type") in CUT_OFF
    )


def defined_step(workflow: Workflow, path: str, record: Mapping[str, Any]) -> StepDefinition | None:
    """Return the definition of a step, or of the `foreach` that it is an item of."""
    step = workflow.find(path)
    if step is None and "item" in record:
        step = workflow.find(path.rpartition("/")[0])
    return step


def _in_flight(attempt: Attempt, record: Mapping[str, Any]) -> bool:
    """Return whether the step's record is still about this attempt. One that was put back may have ended well."""
    status = record.get("status")
    return attempt.number == attempt.current and (
        status == "running" or (status == "pending" and "interrupted_at" in record)
    )


def _fits(old: Workflow, step: StepDefinition, attempt: Attempt, record: Mapping[str, Any]) -> bool:
    """Return whether the step still has the kind that the attempt was started for, and still waits for its end."""
    before = old.find(step.path)
    if before is None or before.kind != step.kind or (before.foreach is None) != (step.foreach is None):
        return False
    if attempt.step == step.path:
        return not isinstance(record.get("items"), int)  # else what it was to find is on record
    return step.foreach is not None


def judge_attempt(orphan: Orphan) -> Orphan:
    """Work out what can be known of an attempt from here."""
    process, folder = orphan.attempt.process, orphan.folder
    ended = _judge_exit(orphan)
    if ended is not None:
        return ended
    if process is not None and process.state() == UNKNOWN:
        return orphan.judged(
            ASK, f"it was started on {process.host}, which cannot be seen from here", ELSEWHERE
        )
    if process is not None and groups.alive(process):
        return orphan.judged(REATTACH, f"its process {process.pid} is still running")
    ended = _judge_exit(orphan)  # it may have been written since
    if ended is not None:
        return ended
    if not folder.began() and process is not None and process.scope == scope():
        return orphan.judged(FORGET, "it was about to start, and never did")
    return orphan.again("it was in flight, its end is unknown")


def _judge_exit(orphan: Orphan) -> Orphan | None:
    orphan.exit = exit = orphan.folder.exit()
    if exit is None:
        return None
    if exit.code == 0:
        damaged = orphan.folder.damaged(exit)
        if damaged:
            return orphan.again(f"what it left in `{damaged}` is damaged, its end is unknown")
        return orphan.judged(ADOPT, "it ended with exit code 0 while no driver was there")
    if exit.cut_off:
        return orphan.again("it was cut off, and it is unknown how far it came")
    return orphan.judged(RUN, f"it ended with exit code {exit.code} while no driver was there")
