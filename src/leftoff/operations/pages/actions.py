"""Actions on a run, decided from afar: looked at first, then done once, and written down with who did it.

A face that is not a shell (the page, its interface for programs) names an action and gives its fields. `preview` says
in plain words what will happen, `act` does it: the same operation that the shell calls, refused by the same rules.
Each leaves a record in the run, in the collection ``audit``: who, when, what, and through which face.
"""

from __future__ import annotations

import hashlib

from leftoff.clock import iso
from leftoff.engine.lifecycle.origin import agree
from leftoff.engine.resume.answers import Answerer, take_answers
from leftoff.engine.resume.finding import ASK, REFUSE, check_codes
from leftoff.engine.resume.request import ResumeRequest
from leftoff.engine.steps.approvals import REJECT
from leftoff.engine.write.commit import Terms
from leftoff.engine.write.report import report as write_report
from leftoff.errors import CannotResume, Conflict, LeftoffError, NeedsPerson, NotFound, Usage
from leftoff.host import user
from leftoff.model.codec import text as canonical
from leftoff.model.fields import Fields
from leftoff.model.ids import shown_step
from leftoff.operations.approvals import Decision, decide, unblock
from leftoff.operations.checkpoints import Fork, fork
from leftoff.operations.execution.detached import begun, resume_apart
from leftoff.operations.execution.stop import stop
from leftoff.operations.execution.workflow_file import is_driven
from leftoff.operations.files import Rollback, plan_rollback, rollback
from leftoff.operations.reports import this_run
from leftoff.operations.resume.resume import RUNNING, find
from leftoff.operations.resume.resume import resume as go_on
from leftoff.operations.resume.verdict import verify
from leftoff.operations.runs import info, target
from leftoff.operations.upkeep.retention import archive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from leftoff.dialects.retention import Pruned
    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.resume.verdict import Report
    from leftoff.engine.workspace.plan import Plan
    from leftoff.model.changes import ChangeSet
    from leftoff.operations.approvals import Decided
    from leftoff.operations.files import RollbackPlan
    from leftoff.store.base import Tx
    from leftoff.store.rows import RunRow

    Given = Mapping[str, Any]

AUDIT = "audit"
PAGE = "page"  # the face on which a person decides in a browser
UNTRUSTED = "definition.untrusted"
LOG = "detached.log"
_LONGEST_SEQ = 18  # digits of the number of a version
TEXT, WORDS, FLAG, MAP = "text", "words", "flag", "map"  # what a field holds

# What each action takes.
ACTIONS: dict[str, dict[str, str]] = {
    "approve": {"step": TEXT, "choice": TEXT, "note": TEXT, "plan": TEXT},
    "reject": {"step": TEXT, "note": TEXT, "plan": TEXT},
    "unblock": {"step": TEXT, "plan": TEXT},
    "resume": {
        "accept": WORDS,
        "answers": MAP,
        "yes": FLAG,
        "failed": FLAG,
        "only": WORDS,
        "from_step": TEXT,
        "plan": TEXT,
    },
    "stop": {},
    "rollback": {"to": TEXT, "good": FLAG, "files": FLAG, "plan": TEXT, "yes": FLAG},
    "fork": {"at": TEXT, "branch": TEXT, "run_id": TEXT},
    "archive": {},
}


class Acted(Fields):
    """What came of it: a sentence, the run that it is about from now on, and the document that the command prints."""

    run_id: str
    told: str
    document: dict[str, Any]


def act(project: Project, caller: Caller, name: str, ref: str, given: Given) -> Acted:
    """Do it, and write down who did."""
    return _ACTS[known(name)](project, caller, ref, checked(name, given))


def known(name: str) -> str:
    if name not in ACTIONS:
        raise NotFound(f"There is no action {name!r}.", hint=f"There are {', '.join(ACTIONS)}.")
    return name


def checked(name: str, given: Given) -> dict[str, Any]:
    """The fields of an action: those that were given, each of its kind."""
    fields, out = ACTIONS[name], {}
    for field, value in given.items():
        kind = fields.get(field)
        if kind is None:
            raise Usage(f"{name} has no field {field!r}.", hint=f"It has: {', '.join(fields) or 'none'}.")
        if not _FITS[kind](value):
            raise Usage(f"The field {field!r} of {name} is {_CALLED[kind]}.", hint="Nothing was changed.")
        if value not in ("", None, [], {}, False):
            out[field] = value
    return out


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


_FITS: dict[str, Callable[[Any], bool]] = {
    TEXT: lambda value: value is None or isinstance(value, str),
    WORDS: _is_words,
    FLAG: lambda value: isinstance(value, bool),
    MAP: lambda value: isinstance(value, dict) and _is_words([*value, *value.values()]),
}
_CALLED = {TEXT: "text", WORDS: "a list of texts", FLAG: "true or false", MAP: "an object of texts"}


# -- who did what


def write_down(project: Project, caller: Caller, row: RunRow, action: str, said: Given) -> None:
    """A record in the run's history: who did what, and through which face."""
    about = {"action": action, "by": user(), "at": iso(project.now), "via": caller.via, "said": dict(said)}

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        changes.put(AUDIT, f"{about['at']} {action}", about)

    try:
        write_report(
            project.store, this_run(row.run, row.run_id), make, Terms(project.now), scrubber=project.redactor
        )
    except NotFound:
        pass  # somebody removed or archived it since: what was done was done


# -- one function for each action, and one that says what it would do


def _approve(project: Project, caller: Caller, ref: str, said: Given) -> Acted:
    return _decide(project, caller, ref, said, "approve", said.get("choice"))


def _reject(project: Project, caller: Caller, ref: str, said: Given) -> Acted:
    return _decide(project, caller, ref, said, "reject", REJECT)


def _decide(
    project: Project, caller: Caller, ref: str, said: Given, action: str, choice: str | None
) -> Acted:
    words = (ref, said["step"]) if "step" in said else (ref,)
    done = decide(project, caller, Decision(words, choice, said.get("note"), said.get("plan")))
    word = "rejected" if done.rejected else "approved"
    if not done.changed:
        return Acted(done.info.run_id, f"{shown_step(done.step)} is already {word}.", done.to_json())
    kept = {**_without_plan(said), "step": done.step, "choice": done.choice}
    write_down(project, caller, done.info.row, action, kept)
    told = f"{shown_step(done.step)} is {word}. {_after_decision(project, caller, done)}"
    return Acted(done.info.run_id, told, done.to_json())


def _after_decision(project: Project, caller: Caller, done: Decided) -> str:
    """Continue a workflow's run with what was decided on the page. Return what happens now, in a sentence."""
    row = done.info.row
    if done.driven or caller.via != PAGE:
        return done.advice
    if done.left is False:
        return "“Ask again” asks again."
    if row.card.get("program") is not None:
        return f"Start the program {row.card['program']} again: it continues the run."
    if not is_driven(project, row):
        return "The person or agent who works on the run continues it. “Go on” has the brief."
    try:
        request = request_of(project, caller, row.run_id, {})
        found = verify(project, caller, request)
        if found.verdict in (ASK, REFUSE):
            raise _not_now(found)
        _drive_apart(project, caller, request.target.row, [])
    except Conflict:  # another process drives it by now
        return done.but(driven=True).advice
    except (LeftoffError, OSError) as error:
        return f"The run does not continue yet. {error} “Resume” shows what to do."
    return "The run continues without it." if done.rejected else "The run continues."


def _unblock(project: Project, caller: Caller, ref: str, said: Given) -> Acted:
    seen = said.get("plan", "")
    if seen and not (seen.isdecimal() and len(seen) <= _LONGEST_SEQ):
        raise _another_plan()
    done = unblock(project, caller, ref, said.get("step"), int(seen) if seen else None)
    if done.changed:
        write_down(project, caller, done.info.row, "unblock", _without_plan(said))
    told = "What blocked it is resolved." if done.changed else "Nothing blocks it."
    if done.changed and done.info.row.status == "blocked":
        told = "That is resolved. Something else blocks the run."
    return Acted(done.info.run_id, told, done.to_json())


def _stop(project: Project, caller: Caller, ref: str, said: Given) -> Acted:
    done = stop(project, caller, ref)
    if done.over or done.run is None:
        raise Conflict(f"Run {done.run_id} is {done.status or 'gone'}; nothing was stopped.")
    write_down(project, caller, done.run.row, "stop", said)
    return Acted(done.run_id, f"Run {done.run_id} is stopped.", done.run.to_json())


def _fork(project: Project, caller: Caller, ref: str, said: Given) -> Acted:
    at = of_run(project, caller, ref, said.get("at"))
    done = fork(project, caller, Fork(at, said.get("branch"), said.get("run_id")))
    write_down(project, caller, done.info.row, "fork", said)
    told = f"Run {done.info.run_id} was made from {done.source.row.run_id}@{done.source.seq}. It is paused."
    return Acted(done.info.run_id, told, done.to_json())


def _archive(project: Project, caller: Caller, ref: str, said: Given) -> Acted:
    def before(row: RunRow) -> None:
        write_down(project, caller, row, "archive", said)

    done = archive(project, caller, ref, before)
    run_id = done.info.run_id
    how = "was archived already" if done.already else "is archived"
    return Acted(run_id, f"Run {run_id} {how}. Its name still opens it.", done.info.to_json())


def _rollback(project: Project, caller: Caller, ref: str, said: Given) -> Acted:
    wanted, seen = way_back(project, caller, ref, said), said.get("plan")
    if seen is not None or not said.get("yes"):
        _need_plan(plan_of(plan_rollback(project, caller, wanted)), seen)

    def agree(plan: Plan) -> bool:
        return seen is None or seen == _digest(plan.to_json(), [])

    done = rollback(project, caller, wanted, lambda run_id, running: True, agree)
    if not done.done:
        raise _another_plan()
    run_id, seq = done.run.run_id, done.target.seq
    if not done.changed:
        return Acted(run_id, f"Run {run_id} is at version {seq}; nothing was changed.", done.to_json())
    write_down(project, caller, done.run.row, "rollback", _without_plan(said))
    told = f"Run {run_id} is back at version {seq}. What was there before is kept in its history."
    return Acted(run_id, told, done.to_json())


def _without_plan(said: Given) -> Given:
    return {name: value for name, value in said.items() if name != "plan"}


def of_run(project: Project, caller: Caller, ref: str, version: str | None) -> str:
    """A version that an action is to start from: one of the run that it was asked of, and of no other."""
    if version is None:
        return ref
    named, meant = (str(target(project, caller, each).row.run_id) for each in (ref, version))
    if named != meant:
        raise Usage(f"{version} is no version of run {named}.", hint="Nothing was changed.")
    return version


def way_back(project: Project, caller: Caller, ref: str, said: Given) -> Rollback:
    to = of_run(project, caller, ref, said.get("to"))
    return Rollback(to, good=bool(said.get("good")), files=bool(said.get("files")))


def plan_of(found: RollbackPlan) -> str:
    """What stands for a plan that somebody was shown."""
    files = found.files.to_json() if found.files is not None else None
    return _digest(files, []) if files is not None else _digest(found.target.seq, sorted(found.running))


def plan_to_prune(found: Pruned) -> str:
    """What stands for what retention would let go."""
    return _digest(found.removed)


def prune_as_seen(project: Project, seen: str) -> Pruned:
    """Let go what somebody was shown, unless that is something else by now."""
    from leftoff.dialects.retention import Upkeep

    upkeep = Upkeep(project)
    found = upkeep.look()
    if seen != plan_to_prune(found):
        raise _another_plan()
    return upkeep.carry_out(found)


def _digest(*what: object) -> str:
    return hashlib.sha256(canonical(list(what)).encode()).hexdigest()[:32]


def _need_plan(plan: str, seen: str | None) -> None:
    if seen is None:
        raise NeedsPerson(
            "Going back is done once its plan was seen.", hint="Look at the plan first, then agree to it."
        )
    if seen != plan:
        raise _another_plan()


def _another_plan() -> Conflict:
    return Conflict(
        "What would be done is not what was shown: something has changed since.",
        hint="Nothing was changed. Look at the plan again.",
    )


def _resume(project: Project, caller: Caller, ref: str, said: Given) -> Acted:
    request = request_of(project, caller, ref, said)
    row = request.target.row
    if request.over is not None:
        raise CannotResume(request.over, hint="Choose a step to begin again from.")
    if is_driven(project, row):
        found = verify(project, caller, request)
        content = _untrusted(found)
        if take_answers(found, request, Answerer()) is None:
            raise _not_now(found)
        _drive_apart(project, caller, row, _options(_trusted(project, row, content, said)))
        write_down(project, caller, row, "resume", _without_plan(said))
        return Acted(row.run_id, f"Run {row.run_id} continues.", info(project, row).to_json())
    done = go_on(project, caller, request, Answerer())
    done.refuse_program()
    if done.outcome != RUNNING:
        raise _not_now(done.report)
    row = done.request.target.row
    write_down(project, caller, row, "resume", _without_plan(said))
    return Acted(row.run_id, f"Run {row.run_id} is running again.", info(project, row).to_json())


def _drive_apart(project: Project, caller: Caller, row: RunRow, options: list[str]) -> None:
    """Continue a workflow's run in a process of its own. Return when that process drives the run."""
    begun(project, row, resume_apart(project, caller, [row.run_id, *options], LOG))


def _untrusted(found: Report) -> str:
    """What stands for the definition of a run from elsewhere that somebody is shown; empty where that is trusted."""
    return next((finding.digest for finding in found.findings if finding.digest), "")


def _trusted(project: Project, row: RunRow, content: str, said: Given) -> Given:
    """What a run from elsewhere would run was agreed to: whoever drives it runs that, and nothing that came since."""
    if not content:
        return said
    agree(project.store, row, content)
    return {**said, "accept": [code for code in said.get("accept", ()) if code != UNTRUSTED]}


def request_of(project: Project, caller: Caller, ref: str, said: Given) -> ResumeRequest:
    from leftoff.operations.reports import step_of

    found = find(project, caller, ref)

    def path(step: str) -> str:
        return step_of(project, found.row, step)

    return ResumeRequest(
        found,
        from_step=path(said["from_step"]) if "from_step" in said else None,
        only=[path(step) for step in said.get("only", ())],
        failed=bool(said.get("failed")),
        accept=check_codes(said.get("accept", ())),
        answers=said.get("answers", {}),
        yes=bool(said.get("yes")),
        seen=said.get("plan"),
    )


def _options(said: Given) -> list[str]:
    """The same, as words of the command."""
    words = ["--failed"] if said.get("failed") else []
    words += ["--yes"] if said.get("yes") else []
    words += [f"--from-step={said['from_step']}"] if "from_step" in said else []
    words += [f"--only={step}" for step in said.get("only", ())]
    words += [f"--accept={code}" for code in said.get("accept", ())]
    return words + [f"--answer={name}={choice}" for name, choice in said.get("answers", {}).items()]


def _not_now(report: Report) -> LeftoffError:
    stand = [finding for finding in report.findings if finding.level == report.verdict]
    told = " ".join(finding.message for finding in stand[:3])
    if "lease.held" in {finding.code for finding in stand}:
        return Conflict(told, hint=stand[0].hint)
    if report.verdict == REFUSE:
        return CannotResume(told, findings=stand, hint=stand[0].hint if stand else "")
    return NeedsPerson(f"A person must decide: {told}", hint="Answer each finding, then resume.")


_ACTS: dict[str, Callable[[Project, Caller, str, Given], Acted]] = {
    "approve": _approve,
    "reject": _reject,
    "unblock": _unblock,
    "resume": _resume,
    "stop": _stop,
    "rollback": _rollback,
    "fork": _fork,
    "archive": _archive,
}
