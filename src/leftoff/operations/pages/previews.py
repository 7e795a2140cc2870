"""What an action would do, in plain words, before it is done: see `operations.pages.actions`. Nothing is changed."""

from __future__ import annotations

from leftoff.engine.resume.finding import ASK, REFUSE
from leftoff.engine.steps.approvals import waiting
from leftoff.errors import NotFound
from leftoff.model.fields import Fields
from leftoff.model.ids import shown_step
from leftoff.model.words import in_words
from leftoff.operations.execution.workflow_file import is_driven
from leftoff.operations.files import plan_rollback
from leftoff.operations.pages.actions import checked, known, of_run, plan_of, request_of, way_back
from leftoff.operations.resume.verdict import verify
from leftoff.operations.runs import target

WITHOUT = "step.waiting"  # it goes on without what waits for a person

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.operations.pages.actions import Given
    from leftoff.store.rows import RunRow


class Preview(Fields):
    """What an action would do. ``says``: in sentences. ``lines``: single things that it would do, such as files.
    ``findings``: of a verdict, those that need an answer first. ``options``: what can be chosen. ``plan``: what
    stands for all of this; whoever agrees sends it back, and is asked again where it is another by then."""

    run_id: str
    says: list[str]
    lines: Sequence[str] = ()
    findings: Sequence[dict[str, Any]] = ()
    options: Sequence[str] = ()
    plan: str = ""

    def questions(self) -> list[dict[str, Any]]:
        """The findings as a person is asked: those that one answer is for are one question: of one code and
        about one thing or, where nothing can be chosen, of one code. ``name``: what the answer is given for.
        ``choices``: what can be said to each of them."""
        asked: dict[str, dict[str, Any]] = {}
        for finding in self.findings:
            choices, subject = finding.get("choices", []), finding["subject"]
            name = f"{finding['code']}:{subject}" if subject and choices else finding["code"]
            one = asked.setdefault(name, {**finding, "name": name, "choices": choices, "findings": []})
            one["findings"].append(finding)
            one["choices"] = [choice for choice in one["choices"] if choice in choices]
        return [*asked.values()]

    def to_json(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in self._fields}
        return {name: value if isinstance(value, str) else list(value) for name, value in found.items()}


def preview(project: Project, caller: Caller, name: str, ref: str, given: Given) -> Preview:
    """What it would do. Nothing is changed."""
    return _PREVIEWS[known(name)](project, caller, ref, checked(name, given))


def _one(project: Project, caller: Caller, ref: str) -> RunRow:
    found: RunRow = target(project, caller, ref).row
    return found


def _preview_decide(project: Project, caller: Caller, ref: str, said: Given) -> Preview:
    row = _one(project, caller, ref)
    asked = project.store.read(lambda view: waiting(project.store, view, row))
    step = said.get("step") or (next(iter(asked)) if len(asked) == 1 else None)
    if step is None or step not in asked:
        what = f"{shown_step(step)} of run" if step else "Nothing in run"
        raise NotFound(
            f"{what} {row.run_id} {'is not' if step else 'is'} waiting for a decision.",
            hint="Look at its steps.",
        )
    one = asked[step]
    who = "the run" if is_driven(project, row) else "the person or agent who works on the run"
    says = [
        f"{shown_step(step)} asks: {one.approval.get('ask', '')}",
        f"If you approve, {who} continues. It cannot be decided twice.",
    ]
    return Preview(row.run_id, says, options=one.offered or ["approve"], plan=one.stamp)


def _preview_unblock(project: Project, caller: Caller, ref: str, said: Given) -> Preview:
    row = _one(project, caller, ref)
    what = shown_step(said["step"]) if "step" in said else "What blocks the run"
    says = [
        f"{what} counts as resolved, and is to be done again.",
        "Nothing starts by itself: resume continues.",
    ]
    return Preview(row.run_id, says, plan=str(row.seq))


def _preview_stop(project: Project, caller: Caller, ref: str, said: Given) -> Preview:
    row = _one(project, caller, ref)
    says = [
        "Whoever drives the run saves a checkpoint, and the processes of its steps are ended.",
        "Steps that were running will run again when it is resumed.",
    ]
    return Preview(row.run_id, [f"Run {row.run_id} {in_words(row.status)}.", *says])


def _preview_fork(project: Project, caller: Caller, ref: str, said: Given) -> Preview:
    found = target(project, caller, of_run(project, caller, ref, said.get("at")))
    says = [
        f"A new run begins with what {found.row.run_id} was at version {found.seq}. It is paused until it is resumed."
    ]
    return Preview(found.row.run_id, [*says, f"{found.row.run_id} stays as it is."])


def _preview_archive(project: Project, caller: Caller, ref: str, said: Given) -> Preview:
    row = _one(project, caller, ref)
    return Preview(
        row.run_id,
        [
            "The run is not listed any more.",
            "Its name still opens it, and resuming brings it back.",
        ],
    )


def _preview_rollback(project: Project, caller: Caller, ref: str, said: Given) -> Preview:
    found = plan_rollback(project, caller, way_back(project, caller, ref, said))
    row = found.target.row
    says = [
        f"Run {row.run_id} goes back to version {found.target.seq}, as a new checkpoint. Nothing is erased."
    ]
    if found.running:
        says.append(
            f"These steps are still running, and are ended first: {', '.join(map(shown_step, found.running))}."
        )
    if found.files is None:
        says.append("Its files stay as they are.")
        return Preview(row.run_id, says, plan=plan_of(found))
    says.append(
        "Its files become what they were, after the present ones were saved."
        if found.files.entries
        else "Every tracked file is already as it was."
    )
    if found.files.changed:
        names = ", ".join(entry.path for entry in found.files.changed[:5])
        says.append(f"Changed since they were last recorded: {names}.")
    lines = [f"{entry.action} {entry.path} ({entry.why})" for entry in found.files.entries]
    return Preview(row.run_id, says, lines, plan=plan_of(found))


def _preview_resume(project: Project, caller: Caller, ref: str, said: Given) -> Preview:
    request = request_of(project, caller, ref, said)
    row = request.target.row
    found = verify(project, caller, request)
    plan = found.stamp
    says = [finding.message for finding in found.findings if finding.code == WITHOUT]
    found.accept({*request.accept, WITHOUT})  # what goes without that person is done
    again = [entry for entry in found.plan if entry["action"] != "skip"]
    says = [
        f"Run {row.run_id} {in_words(row.status)}.",
        found.over or f"{len(again)} {'step is' if len(again) == 1 else 'steps are'} left to do.",
        *says,
    ]
    if is_driven(project, row):
        says.append("It runs in the background, on the machine that serves this page.")
    asks = [finding.to_json() for finding in found.findings if finding.level in (ASK, REFUSE)]
    lines = [f"{entry['action']} {shown_step(entry['step'])} ({entry['why']})" for entry in again]
    return Preview(row.run_id, says, lines, asks, plan=plan)


_PREVIEWS: dict[str, Callable[[Project, Caller, str, Given], Preview]] = {
    "approve": _preview_decide,
    "reject": _preview_decide,
    "unblock": _preview_unblock,
    "resume": _preview_resume,
    "stop": _preview_stop,
    "rollback": _preview_rollback,
    "fork": _preview_fork,
    "archive": _preview_archive,
}
