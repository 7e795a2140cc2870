"""What verification knows of a run of a workflow file: its definition, its requirements, what was in flight.

Whoever resumes the run asks the same questions of the same records once more when it has the lease, so that what was
said before is what is done then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leftoff.clock import millis
from leftoff.engine.config.caller import CALLER
from leftoff.engine.lifecycle.imported_runs import may_run
from leftoff.engine.resume.checks.provider import CheckProvider
from leftoff.engine.resume.finding import REFUSE, WARN, Finding
from leftoff.engine.resume.plan import make_plan
from leftoff.engine.steps.approvals import ask_again, how, is_rejected
from leftoff.errors import LeftoffError
from leftoff.model.changes import NOTHING
from leftoff.model.frozen import marks
from leftoff.model.ids import shown_step, step_word
from leftoff.workflow.definition.model import compare
from leftoff.workflow.recovery.attempts import (
    ADOPT,
    ASK,
    CHECK,
    FORGET,
    NOT_IDEMPOTENT,
    REATTACH,
    TAKEN,
    orphans,
    step_of,
    was_cut_off,
)
from leftoff.workflow.recovery.reopen import DONE
from leftoff.workflow.recovery.shown import what_runs
from leftoff.workflow.run.run_state import RunState, order_of
from leftoff.workflow.run.run_state import missing as lacking
from leftoff.workflow.template.template_check import mentioned
from leftoff.workflow.template.templates import Templates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Protocol

    from leftoff.engine.resume.plan import Layout
    from leftoff.engine.resume.request import Selection
    from leftoff.store.base import Store
    from leftoff.store.rows import Attempt, RunRow
    from leftoff.workflow.definition.model import Workflow
    from leftoff.workflow.definition.parse import Definitions
    from leftoff.workflow.recovery.attempts import Orphan

    class Seen(Protocol):
        """A run at one version, as it is looked at: before it is resumed, or by whoever has its lease."""

        store: Store
        row: RunRow
        now: int
        project: str
        is_head: bool
        attempts: list[Attempt]
        redacted: list[str]

        @property
        def run_id(self) -> str: ...

        @property
        def steps(self) -> Mapping[str, dict[str, Any]]: ...

        @property
        def seq(self) -> int | None:
            """The version, where it is not the newest."""


_GO_ON = "Finished steps do not run again; --accept definition.changed resumes anyway."
_WORDS = {FORGET: "run", CHECK: "adopt"}


def has_secret(record: Mapping[str, Any]) -> bool:
    """Whether a part of a step's result was redacted."""
    return "result" in record and bool(marks(record["result"]))


class WorkflowChecks(CheckProvider):
    """The checks of one run of a workflow file. ``given``: variables that are set again."""

    def __init__(
        self,
        definitions: Definitions,
        store_folder: str,
        given: Mapping[str, Any],
        state: RunState | None = None,
    ) -> None:
        self.problem = definitions.problem
        self.old, self.new = definitions.old, definitions.new
        self._path, self._gone = definitions.path, definitions.gone
        self._is_named = definitions.is_named
        self._folder = store_folder
        self._given = given
        self._state = state
        self._looked: tuple[Selection, list[Orphan], list[Attempt]] | None = None
        self.waiting = (self.requirements,)

    def runs_once(self, path: str) -> bool:
        step = step_of(self.new, path, {"item": None}) if self.new is not None else None
        return step is not None and not step.idempotent

    def requirements(self, seen: Seen) -> Iterator[Finding]:
        if self.new is None:
            return
        for what in lacking(self.new, seen.project):
            yield Finding(
                "prerequisite.missing",
                f"The workflow needs something that is missing: {what}.",
                "Provide it, then try again.",
                what,
            )
        absent = [name for name in self.new.secrets if not CALLER.has(name)]
        if absent:
            yield Finding(
                "variables.redacted",
                f"The workflow needs secrets that are not in the environment: {', '.join(absent)}.",
                f"Secrets are never stored. Set {absent[0]} in the environment.",
                absent[0],
                choices=("type them", "stop"),
            )

    def findings(self, seen: Seen, selection: Selection) -> Iterator[Finding]:
        """What else is found, in view of what is asked for."""
        if self.new is None:
            wrong = self.problem or LeftoffError("The workflow file cannot be read.")
            yield Finding("definition.changed", wrong.message, wrong.hint, self._path, level=REFUSE)
            return
        yield from self.of_definition(seen, selection)
        yield from self.of_steps(seen, selection)
        yield from self._waiting(seen, selection, self.new)
        yield from self._rejected(seen, selection)

    def of_definition(self, seen: Seen, selection: Selection) -> Iterator[Finding]:
        """Where it comes from, what the definition changes, and what it needs that was not stored."""
        if self.new is not None:
            yield from self._untrusted(seen, self.new)
            yield from self._definition(seen, selection, self.new)
            yield from self._redacted(seen, selection, self.new)

    def of_steps(self, seen: Seen, selection: Selection) -> Iterator[Finding]:
        """Steps that must not simply run again."""
        if self.new is not None:
            for path, why, code in (
                *self._in_flight(seen, selection),
                *self._cut_off(seen, selection, self.new),
            ):
                if not selection.leaves_out(path):
                    yield _question(seen.run_id, path, why, code)

    # -- the definition

    def _untrusted(self, seen: Seen, new: Workflow) -> Iterator[Finding]:
        """A run that came from elsewhere, with its workflow: what it would run is for a person to see first."""
        if self._is_named or CALLER.trusts(seen.project) or may_run(seen.store, seen.row, new.digest):
            return
        yield Finding(
            "definition.untrusted",
            f"{seen.run_id} was not started here by you, and would run what its workflow says:",
            f"`leftoff trust`, or yes here, trusts it; `leftoff resume {seen.run_id} --trust` does so once.",
            self._path,
            diff="\n".join(what_runs(seen.store, seen.row, new)),
            digest=new.digest,
        )

    def _definition(self, seen: Seen, selection: Selection, new: Workflow) -> Iterator[Finding]:
        """The workflow file changed: later steps only is worth a word, finished ones a question."""
        if self._gone:
            gone = f"{self._path} {self._gone}; the run's own copy of it is used."
            yield Finding("definition.changed", gone, "", self._path, level=WARN)
        if self.old is new:
            return
        what = f"{self._path} changed since the run started:"
        if self.old is None:
            told = f"{what} what it was is not known (a text with a secret in it is not stored)."
            yield Finding("definition.changed", told, _GO_ON, self._path)
            return
        done = {path for path in seen.steps if _status(seen.steps, path) in DONE} - selection.repeat
        done |= {path.rpartition("/")[0] for path in done if "item" in seen.steps[path]}
        done |= {orphan.step.path for orphan in self.look(seen, selection)[0] if orphan.action in TAKEN}
        differs = compare(self.old, new, done)
        if differs:
            hint, level = (_GO_ON, "") if differs.doubtful else ("", WARN)
            yield Finding("definition.changed", f"{what} {differs.told()}.", hint, self._path, level=level)

    # -- values that were not stored

    def _redacted(self, seen: Seen, selection: Selection, new: Workflow) -> Iterator[Finding]:
        """Secret variables and results that steps which are left mention, and that nobody has given again."""
        missing = [name for name in seen.redacted if name not in self._given]
        lost = [
            path
            for path, record in _open(seen.steps).items()
            if record.get("status") in DONE and has_secret(record)
        ]
        lost = [path for path in lost if path not in selection.repeat]
        if not (missing or lost):
            return
        done = {path for path in seen.steps if _status(seen.steps, path) in DONE} - selection.repeat
        templates, used, texts = Templates(), set[str](), list[str]()
        for step in new.leaves():
            if step.path not in done and not selection.leaves_out(step.path):
                found = mentioned(templates, step)
                used |= found
                texts += [str(step.key_facts())] if "results" in found else []
        for name in missing:
            if name in used:
                message = f"The variable {name} is a secret and was not stored."
                yield Finding("variables.redacted", message, f"Give it again: --var {name}=…", name)
        for path in sorted(lost):
            if any(path in text or path.rpartition("/")[2] in text for text in texts):
                has = "has a secret in it, which was not stored, and is needed"
                message = f"The result of step {shown_step(path)} {has}."
                hint = f"`leftoff resume {seen.run_id} --from-step {step_word(path)}` runs that step again."
                yield Finding("variables.redacted", message, hint, path)

    # -- what was in flight

    def look(self, seen: Seen, selection: Selection) -> tuple[list[Orphan], list[Attempt]]:
        """The attempts of steps that were in flight, and what to do about each; and those that just end."""
        if self.new is None:
            return [], []
        if self._looked is None or self._looked[0] is not selection:
            back = not seen.is_head
            old = self.old or self.new
            found, strays = orphans(seen.steps, old, self.new, seen.attempts, self._folder, back=back)
            for orphan in found:
                restarted = selection.restart and orphan.action == REATTACH
                if back or restarted or orphan.unit in selection.repeat:
                    orphan.end()
                elif orphan.action in (ADOPT, CHECK) and orphan.step.outputs:
                    self._look_at_outputs(seen, orphan)
            self._looked = selection, found, strays
        return self._looked[1:]

    def _look_at_outputs(self, seen: Seen, orphan: Orphan) -> None:
        """What it declared must be there, whatever else tells how it ended."""
        from leftoff.workflow.recovery.proof import without_outputs

        step, state = orphan.step, self._state_of(seen)
        if step.foreach is not None and orphan.unit == step.path:
            return  # it looks for items
        item = state.item(orphan.unit) if orphan.unit != step.path else NOTHING
        absent = without_outputs(state, step, item)
        if absent:
            ended = (
                "it ended with exit code 0"
                if orphan.action == ADOPT
                else "nobody knows how it ended, and it is not proven that it is done"
            )
            orphan.again(f"{ended}: {absent}")

    def _state_of(self, seen: Seen) -> RunState:
        if self._state is None:
            assert self.new is not None
            self._state = RunState(self.new, seen.project, seen.store, seen.row.run, seen.run_id, seen.seq)
            self._state.overlay = dict(self._given)
            self._state.load()
        return self._state

    def _in_flight(self, seen: Seen, selection: Selection) -> Iterator[tuple[str, str, str]]:
        for orphan in self.look(seen, selection)[0]:
            if orphan.action == ASK:
                yield orphan.unit, orphan.why, orphan.code or NOT_IDEMPOTENT

    def _cut_off(self, seen: Seen, selection: Selection, new: Workflow) -> Iterator[tuple[str, str, str]]:
        """Steps that failed so that nobody knows how far they came."""
        judged = {orphan.unit for orphan in self.look(seen, selection)[0]}
        for path, record in _open(seen.steps).items():
            if was_cut_off(record) and path not in judged:
                step = step_of(new, path, record)
                if step is not None and not step.idempotent:
                    yield path, "it was cut off, and it is not safe to repeat", NOT_IDEMPOTENT

    # -- people

    def _waiting(self, seen: Seen, selection: Selection, new: Workflow) -> Iterator[Finding]:
        """Steps that wait for a person: a question where nothing goes without the answer, else worth a word."""
        waiting = [
            path
            for path, record in _open(seen.steps).items()
            if record.get("status") == "waiting"
            and new.find(path) is not None
            and not (path in selection.repeat or selection.leaves_out(path) or _is_over(record, seen.now))
        ]
        level = WARN if waiting and self._goes_on(seen, selection, new, waiting) else ""
        for path in waiting:
            if seen.steps[path].get("kind") == "approval":
                what, hint = "a decision", how(seen.run_id, path)
            else:
                what, hint = "a person", f"leftoff step done {step_word(path)} --run {seen.run_id}"
            yield Finding(
                "step.waiting",
                f"Step {shown_step(path)} is waiting for {what}.",
                f"`{hint}`",
                path,
                level=level,
            )

    def _rejected(self, seen: Seen, selection: Selection) -> Iterator[Finding]:
        """A decision stands until somebody wants it to be asked for again, and may leave nothing to do."""
        for path, record in _open(seen.steps).items():
            if is_rejected(record) and not (path in selection.repeat or selection.leaves_out(path)):
                told = f"Step {shown_step(path)} was rejected."
                if self._held_up(seen, path):
                    told = f"Step {shown_step(path)} was rejected, and what comes after it is not done."
                yield Finding("step.rejected", told, f"`{ask_again(seen.run_id, path)}` asks again.", path)

    def _goes_on(self, seen: Seen, selection: Selection, new: Workflow, waiting: list[str]) -> bool:
        """Whether something can be done before anybody has decided."""
        from leftoff.workflow.definition.model import Graph

        graph = Graph(new)
        behind = {path for leaf in waiting for path in graph.after(leaf)}
        plan = make_plan(self.layout(seen), (), self.known(seen, selection), selection)
        todo = (entry["step"] for entry in plan if entry["action"] not in ("skip", "ask"))
        return any(path not in behind and path.rpartition("/")[0] not in behind for path in todo)

    # -- the plan

    def known(self, seen: Seen, selection: Selection) -> dict[str, tuple[str, str]]:
        """What would be done about each step that was in flight, or was decided, and why."""
        known = {
            orphan.unit: (_WORDS.get(orphan.action, orphan.action), orphan.why)
            for orphan in self.look(seen, selection)[0]
        }
        for path, record in _open(seen.steps).items():
            if path in selection.repeat:
                continue
            if is_rejected(record):
                known[path] = "skip", "it was rejected"
            elif record.get("status") == "waiting" and _is_over(record, seen.now):
                known[path] = "skip", "it is rejected: its deadline has passed"
            else:
                continue
            known = {**self._held_up(seen, path), **known}
        return known

    def _held_up(self, seen: Seen, rejected: str) -> dict[str, tuple[str, str]]:
        """What is not done because of a rejection: all that is left, or what needs it, as `on_failure` says."""
        step = self.new.find(rejected) if self.new is not None else None
        if step is None or self.new is None or step.on_failure == "continue":
            return {}
        from leftoff.workflow.definition.model import Graph

        stops = step.on_failure == "stop"
        behind = Graph(self.new).after(rejected)
        left = [path for path in self.layout(seen).leaves() if _status(seen.steps, path) not in DONE]
        why = (
            f"{rejected} is rejected, which stops the run"
            if stops
            else f"it needs {rejected}, which is rejected"
        )
        held = (path for path in left if stops or path in behind or path.rpartition("/")[0] in behind)
        return {path: ("skip", why) for path in held if path != rejected}

    def layout(self, seen: Seen) -> Layout:
        return _Layout(self.new, seen.steps) if self.new is not None else seen  # type: ignore[return-value]


class _Layout:
    """The steps that a definition has by now, and the items that are known of them."""

    def __init__(self, workflow: Workflow, steps: Mapping[str, dict[str, Any]]) -> None:
        self.steps = steps
        self._workflow = workflow

    def leaves(self) -> list[str]:
        fans = {step.path for step in self._workflow.leaves() if step.foreach is not None}
        below: dict[str, list[str]] = {}
        for path in self.steps if fans else ():
            leaf = path.rpartition("/")[0]
            if leaf in fans and "item" in self.steps[path]:
                below.setdefault(leaf, []).append(path)
        for items in below.values():
            items.sort(key=lambda path: order_of(self.steps[path]))
        return [p for step in self._workflow.leaves() for p in below.get(step.path, [step.path])]


def _open(steps: Mapping[str, dict[str, Any]]) -> Mapping[str, dict[str, Any]]:
    """Those that are not settled, where they are known; a long run has few of them."""
    return getattr(steps, "open", steps)


def _status(steps: Mapping[str, dict[str, Any]], path: str) -> object:
    known = _open(steps).get(path)
    if known is not None:
        return known.get("status")
    return "completed" if path in steps else None


def _is_over(record: Mapping[str, Any], now: int) -> bool:
    until = millis(record.get("waits_until"))
    return until is not None and now > until


def _question(run_id: str, path: str, why: str, code: str) -> Finding:
    hint = (
        f"Look whether it is done. `leftoff step done {step_word(path)} --run {run_id}` says so; "
        f"`leftoff resume {run_id} --accept {code}` runs it again."
    )
    return Finding(code, f"Step {shown_step(path)}: {why}.", hint, path)
