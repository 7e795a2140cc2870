"""What only the page and its API ask: runs at a glance, and one table of actions, each with its fields and its dry run.

A face that is not a shell names an action and gives its fields. ``dry_run`` says in plain words what the action would
do, ``act`` does it: by the same operation that the shell calls, refused by the same rules. Each action leaves a record
in the run (``Audit``): in the same commit if the action is one commit, else right after it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from leftoff.engine.approvals import REJECT, waiting
from leftoff.engine.attention import URGENT, Glance, glance, need_of, unfinished_runs
from leftoff.engine.commit import Audit
from leftoff.engine.find import Target
from leftoff.engine.findings import ASK, REFUSE, check_codes
from leftoff.engine.imported_runs import agree as agree_to_run
from leftoff.engine.judge import Verdict
from leftoff.engine.lease import state as lease_state
from leftoff.engine.project import Project
from leftoff.engine.restoring import RestorePlan
from leftoff.engine.resume_answers import Answerer, Answers, ResumeRequest, take_answers
from leftoff.engine.run_info import info
from leftoff.engine.run_reader import Reader, need_version
from leftoff.engine.settings import Caller
from leftoff.engine.show import as_of
from leftoff.errors import CannotResume, Conflict, LeftoffError, NeedsPerson, NotFound, Usage
from leftoff.host import GONE
from leftoff.model.codec import text as canonical
from leftoff.model.ids import shown_step
from leftoff.model.words import FINISHED, in_words
from leftoff.operations.checkpoints import fork_run
from leftoff.operations.resuming import RUNNING, find, judge, resume_unasked
from leftoff.operations.run_files import Rollback, RollbackPlan, plan_rollback, rollback_run
from leftoff.operations.run_lifecycle import DecidedStep, decide_step, unblock_run
from leftoff.operations.run_reports import record_audit, step_named
from leftoff.operations.runs import info_of, target
from leftoff.operations.store_upkeep import archive_run
from leftoff.operations.supervision import resume_apart
from leftoff.operations.workflow_runs import is_driven, stop_run
from leftoff.store.base import View
from leftoff.store.rows import RunRow

# -- all runs


class RunFilter(NamedTuple):
    """Which runs are looked for. ``text``: in id, title, workflow, branch, agent or issue.

    ``first``: how many are shown of those that need a person, and of those under way; ``most``: of the rest.
    ``before``: the number of a commit; show only the rest, from what was touched last before it.
    """

    status: str = ""
    text: str = ""
    before: int | None = None
    first: int = 50
    most: int = 50

    def fits(self, row: RunRow) -> bool:
        """Return whether a run is looked for."""
        if self.status not in ("", row.status):
            return False
        issue, wanted = f"#{row.issue}" if row.issue else None, self.text.casefold()
        told = (row.run_id, row.title, row.workflow, row.branch, row.card.get("agent"), issue)
        return not wanted or any(wanted in str(word).casefold() for word in told if word)


class Overview(NamedTuple):
    """Runs that need a person, runs under way, and the rest. ``needed``, ``worked``: how many fit of the first two;
    ``needing``: how many need a person, whether they fit or not. ``next``: where the rest continues, if there is more.
    """

    needs: Sequence[Glance] = ()
    works: Sequence[Glance] = ()
    rest: Sequence[Glance] = ()
    needed: int = 0
    worked: int = 0
    needing: int = 0
    next: int | None = None


def overview(project: Project, filters: RunFilter) -> Overview:
    """Return the runs of a project that are looked for; none if there is no store."""
    store, now, limits = project.store, project.now, project.limits
    if not store.exists():
        return Overview()
    status = FINISHED if not filters.status else [filters.status] if filters.status in FINISHED else []
    first = filters.first if filters.before is None else 0

    def look(view: View) -> Overview:
        every = unfinished_runs(view, now, {})
        found = [(row, why) for row, why in every if filters.fits(row)]
        needs = [(row, why) for row, why in found if why is not None]
        needs.sort(key=lambda need: URGENT.index(need[1]))
        works = [(row, None) for row, why in found if why is None]
        older = {"status": status, "before": filters.before}
        rest = view.list_runs(older, None if filters.text else filters.most + 1)
        rest = [row for row in rest if filters.fits(row)]
        return Overview(
            [glance(store, view, row, why, now, limits) for row, why in needs[:first]],
            [glance(store, view, row, why, now, limits) for row, why in works[:first]],
            [Glance(info(view, row, now, limits)) for row in rest[: filters.most]],
            len(needs),
            len(works),
            sum(why is not None for _, why in every),
            rest[filters.most - 1].n if len(rest) > filters.most else None,
        )

    return store.read(look)


# -- one run


def at_a_glance(project: Project, caller: Caller, ref: str) -> tuple[Target, Glance]:
    """Return what a REF names, and that run as an overview shows it; of a version, as it was then."""
    found = target(project, caller, ref)
    store, now = project.store, project.now

    def look(view: View) -> Glance:
        row = view.run_row(found.row.run) or found.row
        if found.version is not None:
            version = need_version(view, row.run, row.run_id, found.version.seq)
            own = Reader(store, view, row.run, row.run_id, version.seq).plain("run")
            return Glance(info(view, as_of(row, version, own), now, project.limits))
        why = need_of(row, lease_state(view.lease(row.run), now) == GONE)
        return glance(store, view, row, why, now, project.limits)

    return found, store.read(look)


def run_records(project: Project, caller: Caller, ref: str, *collections: str) -> dict[str, dict[str, Any]]:
    """Return the records that a run, or a version of it, has in some collections, by key."""
    found = target(project, caller, ref)
    seq = found.version.seq if found.version is not None else None

    def look(view: View) -> dict[str, dict[str, Any]]:
        reader = Reader(project.store, view, found.row.run, found.row.run_id, seq)
        return {name: reader.plain(name) for name in collections}

    return project.store.read(look)


# -- actions

Given = Mapping[str, Any]
PAGE = "page"  # the face on which a person decides in a browser
UNTRUSTED = "definition.untrusted"
LOG = "detached.log"
_WITHOUT = "step.waiting"  # the finding that a run continues without a step that waits for a person
# The kinds of fields.
TEXT, FLAG, WORDS, MAP = "text", "true or false", "a list of texts", "an object of texts"


class Acted(NamedTuple):
    """The result: a sentence, the run to show from now on, and the document that the command would print."""

    run_id: str
    told: str
    document: dict[str, Any]


class Preview(NamedTuple):
    """What an action would do: sentences (``says``) and single things such as files (``lines``).

    ``findings``: those of a verdict that need an answer first. ``options``: the choices. ``plan``: identifies all of
    this; the user who agrees sends it back, and is asked again if it has changed.
    """

    run_id: str
    says: list[str]
    lines: Sequence[str] = ()
    findings: Sequence[dict[str, Any]] = ()
    options: Sequence[str] = ()
    plan: str = ""

    def questions(self) -> list[dict[str, Any]]:
        """Group the findings that one answer is for into one question each.

        Findings of one code belong together if nothing can be chosen; else those of one code about one subject.
        ``name``: what the answer is given for. ``choices``: what can be said to each of them.
        """
        asked: dict[str, dict[str, Any]] = {}
        for finding in self.findings:
            choices, subject = finding.get("choices", []), finding["subject"]
            name = f"{finding['code']}:{subject}" if subject and choices else finding["code"]
            one = asked.setdefault(name, {**finding, "name": name, "choices": choices, "findings": []})
            one["findings"].append(finding)
            one["choices"] = [choice for choice in one["choices"] if choice in choices]
        return [*asked.values()]

    def to_json(self) -> dict[str, Any]:
        found = self._asdict()
        return {name: value if isinstance(value, str) else list(value) for name, value in found.items()}


class ActionOrder(NamedTuple):
    """An action on the run ``ref``, as a caller asked for it. ``said``: the fields that are not empty."""

    project: Project
    caller: Caller
    ref: str
    name: str
    said: Given

    def audit(self) -> Audit:
        said = {field: value for field, value in self.said.items() if field != "plan"}
        return Audit(self.name, self.caller.via, said)

    def row(self) -> RunRow:
        return target(self.project, self.caller, self.ref).row


class PageAction(NamedTuple):
    fields: dict[str, str]  # the kind of each
    do: Callable[[ActionOrder], Acted]
    dry_run: Callable[[ActionOrder], Preview]


def act(project: Project, caller: Caller, name: str, ref: str, given: Given) -> Acted:
    """Do it, and record who did."""
    return _known(name).do(ActionOrder(project, caller, ref, name, _checked(name, given)))


def dry_run(project: Project, caller: Caller, name: str, ref: str, given: Given) -> Preview:
    """Say what it would do. Nothing is changed."""
    return _known(name).dry_run(ActionOrder(project, caller, ref, name, _checked(name, given)))


def _known(name: str) -> PageAction:
    if name not in ACTIONS:
        raise NotFound(f"There is no action {name!r}.", hint=f"There are {', '.join(ACTIONS)}.")
    return ACTIONS[name]


def _checked(name: str, given: Given) -> dict[str, Any]:
    """Return the fields that are not empty; raise ``Usage`` if there is no such field, or it is of another kind."""
    fields, out = ACTIONS[name].fields, {}
    for field, value in given.items():
        kind = fields.get(field)
        if kind is None:
            raise Usage(f"{name} has no field {field!r}.", hint=f"It has: {', '.join(fields) or 'none'}.")
        kinds: dict[str, Any] = {TEXT: (str, type(None)), FLAG: bool, WORDS: list, MAP: dict}
        inner = [*value, *value.values()] if isinstance(value, dict) else value if kind == WORDS else ()
        if not isinstance(value, kinds[kind]) or not all(isinstance(each, str) for each in inner):
            raise Usage(f"The field {field!r} of {name} is {kind}.", hint="Nothing was changed.")
        if value not in ("", None, [], {}, False):
            out[field] = value
    return out


# -- approve, reject


def _decide(order: ActionOrder) -> Acted:
    project, caller, ref, name, said = order
    words = (ref, said["step"]) if "step" in said else (ref,)
    choice = REJECT if name == "reject" else said.get("choice")
    done = decide_step(project, caller, words, choice, said.get("note"), said.get("plan"), order.audit())
    word = "rejected" if done.rejected else "approved"
    told = f"{shown_step(done.step)} is already {word}."
    if done.changed:
        told = f"{shown_step(done.step)} is {word}. {_after_decision(project, caller, done)}"
    return Acted(done.info.run_id, told, done.info.to_json())


def _after_decision(project: Project, caller: Caller, done: DecidedStep) -> str:
    """Continue a workflow's run with what was decided on the page. Return what happens now, in a sentence."""
    row = done.info.row
    if done.driven or caller.via != PAGE:
        return done.advice
    if done.left is False:
        return "“Ask again” asks again."
    if row.card.get("program") is not None:
        return f"Start the program {row.card['program']} again: it continues the run."
    if not is_driven(project, row):
        return "The person or agent who works on the run continues it. “Resume” has the brief."
    try:
        request = _request(ActionOrder(project, caller, row.run_id, "resume", {}))
        found = judge(project, caller, request)
        if found.verdict in (ASK, REFUSE):
            raise _not_now(found)
        _drive_apart(project, caller, request.target.row, {})
    except Conflict:  # another process drives it by now
        return done._replace(driven=True).advice
    except (LeftoffError, OSError) as error:
        return f"The run does not continue yet. {error} “Resume” shows what to do."
    return "The run continues without it." if done.rejected else "The run continues."


def _preview_decide(order: ActionOrder) -> Preview:
    project, row = order.project, order.row()
    asked = project.store.read(lambda view: waiting(project.store, view, row))
    step = order.said.get("step") or (next(iter(asked)) if len(asked) == 1 else None)
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


# -- unblock, stop, fork, archive


def _unblock(order: ActionOrder) -> Acted:
    seen = order.said.get("plan")
    if seen is not None and not (seen.isdecimal() and len(seen) < 19):
        raise _another_plan()
    version, step = int(seen) if seen is not None else None, order.said.get("step")
    run, changed, _ = unblock_run(order.project, order.caller, order.ref, step, version, order.audit())
    told = "What blocked it is resolved." if changed else "Nothing blocks it."
    if changed and run.status == "blocked":
        told = "That is resolved. Something else blocks the run."
    return Acted(run.run_id, told, run.to_json())


def _preview(order: ActionOrder) -> Preview:
    """Say what an action would do that needs no plan and no answers."""
    row = order.row()
    match order.name:
        case "unblock":
            what = shown_step(order.said["step"]) if "step" in order.said else "What blocks the run"
            says = [
                f"{what} counts as resolved, and is to be done again.",
                "Nothing starts by itself: resume continues.",
            ]
        case "stop":
            says = [
                f"Run {row.run_id} {in_words(row.status)}.",
                "Whoever drives the run saves a checkpoint, and the processes of its steps are ended.",
                "Steps that were running will run again when it is resumed.",
            ]
        case "fork":
            seq = target(order.project, order.caller, _version(order, "at")).seq
            says = [
                f"A new run begins with what {row.run_id} was at version {seq}. It is paused until it is resumed.",
                f"{row.run_id} stays as it is.",
            ]
        case _:
            says = [
                "The run is not listed any more.",
                "Its name still opens it, and resuming brings it back.",
            ]
    return Preview(row.run_id, says, plan=str(row.seq) if order.name == "unblock" else "")


def _stop(order: ActionOrder) -> Acted:
    done = stop_run(order.project, order.caller, order.ref)
    if done.over or done.run is None:
        raise Conflict(f"Run {done.run_id} is {done.status or 'gone'}; nothing was stopped.")
    record_audit(order.project, done.run.row, order.audit())
    return Acted(done.run_id, f"Run {done.run_id} is stopped.", done.run.to_json())


def _fork(order: ActionOrder) -> Acted:
    said, ref = order.said, _version(order, "at")
    branch, run_id = said.get("branch"), said.get("run_id")
    made, source = fork_run(order.project, order.caller, ref, branch, run_id, audit=order.audit())
    told = f"Run {made.run_id} was made from {source.row.run_id}@{source.seq}. It is paused."
    return Acted(made.run_id, told, made.to_json())


def _version(order: ActionOrder, field: str) -> str:
    """Return the version that a field names; raise ``Usage`` if it is a version of another run."""
    version: str | None = order.said.get(field)
    if version is None:
        return order.ref
    named = order.row().run_id
    if named != target(order.project, order.caller, version).row.run_id:
        raise Usage(f"{version} is not a version of run {named}.", hint="Nothing was changed.")
    return version


def _archive(order: ActionOrder) -> Acted:
    run, was_archived = archive_run(order.project, order.caller, order.ref, order.audit())
    how = "was archived already" if was_archived else "is archived"
    return Acted(run.run_id, f"Run {run.run_id} {how}. Its name still opens it.", run.to_json())


# -- rollback


def _rollback(order: ActionOrder) -> Acted:
    project, caller, said = order.project, order.caller, order.said
    wanted, seen = _way_back(order), said.get("plan")
    if seen is not None or not said.get("yes"):
        plan = _stamp(plan_rollback(project, caller, wanted))
        if seen is None:
            raise NeedsPerson(
                "Going back is done once its plan was seen.", hint="Look at the plan first, then agree to it."
            )
        if seen != plan:
            raise _another_plan()

    def agree(plan: RestorePlan) -> bool:
        return seen is None or seen == _digest(plan.to_json(), [])

    done = rollback_run(project, caller, wanted, lambda run_id, running: True, agree)
    if not done.done:
        raise _another_plan()
    run_id, seq = done.run.run_id, done.target.seq
    if not done.changed:
        return Acted(run_id, f"Run {run_id} is at version {seq}; nothing was changed.", done.to_json())
    record_audit(project, done.run.row, order.audit())
    told = f"Run {run_id} is back at version {seq}. What was there before is kept in its history."
    return Acted(run_id, told, done.to_json())


def _preview_rollback(order: ActionOrder) -> Preview:
    found = plan_rollback(order.project, order.caller, _way_back(order))
    run_id, plan = found.target.row.run_id, _stamp(found)
    says = [f"Run {run_id} goes back to version {found.target.seq}, as a new checkpoint. Nothing is erased."]
    if found.running:
        ended = ", ".join(map(shown_step, found.running))
        says.append(f"These steps are still running, and are ended first: {ended}.")
    if found.files is None:
        return Preview(run_id, [*says, "Its files stay as they are."], plan=plan)
    says.append(
        "Its files become what they were, after the present ones were saved."
        if found.files.entries
        else "Every tracked file is already as it was."
    )
    if found.files.changed:
        names = ", ".join(entry.path for entry in found.files.changed[:5])
        says.append(f"Changed since they were last recorded: {names}.")
    lines = [f"{entry.action} {entry.path} ({entry.why})" for entry in found.files.entries]
    return Preview(run_id, says, lines, plan=plan)


def _way_back(order: ActionOrder) -> Rollback:
    return Rollback(_version(order, "to"), files=bool(order.said.get("files")))


def _stamp(found: RollbackPlan) -> str:
    files = found.files.to_json() if found.files is not None else None
    return _digest(files, []) if files is not None else _digest(found.target.seq, sorted(found.running))


# -- resume


def _resume(order: ActionOrder) -> Acted:
    project, caller, said = order.project, order.caller, order.said
    request = _request(order)
    row = request.target.row
    if request.over is not None:
        raise CannotResume(request.over, hint="Choose a step to begin again from.")
    if is_driven(project, row):
        found = judge(project, caller, request)
        untrusted = next((finding.digest for finding in found.findings if finding.digest), "")
        if not take_answers(found, Answers(), Answerer()):
            raise _not_now(found)
        if untrusted:  # the driver runs the definition that was shown, and none that came since
            agree_to_run(project.store, row, untrusted)
            said = {**said, "accept": [code for code in said.get("accept", ()) if code != UNTRUSTED]}
        _drive_apart(project, caller, row, said)
        told = f"Run {row.run_id} continues."
    else:
        done = resume_unasked(project, caller, request)
        done.refuse_program()
        if done.outcome != RUNNING:
            raise _not_now(done.verdict)
        told = f"Run {row.run_id} is running again."
    record_audit(project, row, order.audit())
    return Acted(row.run_id, told, info_of(project, row).to_json())


def _preview_resume(order: ActionOrder) -> Preview:
    request = _request(order)
    row = request.target.row
    found = judge(order.project, order.caller, request)
    plan = found.stamp
    without = [finding.message for finding in found.findings if finding.code == _WITHOUT]
    found.accept({*request.accept, _WITHOUT})  # plan what is done without that person
    again = [entry for entry in found.plan if entry["action"] != "skip"]
    says = [
        f"Run {row.run_id} {in_words(row.status)}.",
        found.over or f"{len(again)} {'step is' if len(again) == 1 else 'steps are'} left to do.",
        *without,
    ]
    if is_driven(order.project, row):
        says.append("It runs in the background, on the machine that serves this page.")
    asks = [finding.to_json() for finding in found.findings if finding.level in (ASK, REFUSE)]
    lines = [f"{entry['action']} {shown_step(entry['step'])} ({entry['why']})" for entry in again]
    return Preview(row.run_id, says, lines, asks, plan=plan)


def _request(order: ActionOrder) -> ResumeRequest:
    project, said = order.project, order.said
    found = find(project, order.caller, order.ref)
    from_step = said.get("from_step")
    return ResumeRequest(
        found,
        from_step=step_named(project, found.row, from_step) if from_step else None,
        accept=check_codes(said.get("accept", ())),
        answers=said.get("answers", {}),
        yes=bool(said.get("yes")),
        seen=said.get("plan"),
    )


def _drive_apart(project: Project, caller: Caller, row: RunRow, said: Given) -> None:
    """Continue a workflow's run in a new process. Return when that process drives the run."""
    words = ["--yes"] if said.get("yes") else []
    words += [f"--from-step={said['from_step']}"] if "from_step" in said else []
    words += [f"--accept={code}" for code in said.get("accept", ())]
    words += [f"--answer={name}={choice}" for name, choice in said.get("answers", {}).items()]
    resume_apart(project, caller, row, words, LOG)


def _not_now(report: Verdict) -> LeftoffError:
    stand = [finding for finding in report.findings if finding.level == report.verdict]
    told = " ".join(finding.message for finding in stand[:3])
    if "lease.held" in {finding.code for finding in stand}:
        return Conflict(told, hint=stand[0].hint)
    if report.verdict == REFUSE:
        return CannotResume(told, findings=stand, hint=stand[0].hint if stand else "")
    return NeedsPerson(f"A person must decide: {told}", hint="Answer each finding, then resume.")


def _digest(*what: object) -> str:
    return hashlib.sha256(canonical(list(what)).encode()).hexdigest()[:32]


def _another_plan() -> Conflict:
    return Conflict(
        "What would be done is not what was shown: something has changed since.",
        hint="Nothing was changed. Look at the plan again.",
    )


_RESUME_FIELDS = {"accept": WORDS, "answers": MAP, "yes": FLAG, "from_step": TEXT, "plan": TEXT}
_ROLLBACK_FIELDS = {"to": TEXT, "files": FLAG, "plan": TEXT, "yes": FLAG}
ACTIONS = {
    "approve": PageAction(
        {"step": TEXT, "choice": TEXT, "note": TEXT, "plan": TEXT}, _decide, _preview_decide
    ),
    "reject": PageAction({"step": TEXT, "note": TEXT, "plan": TEXT}, _decide, _preview_decide),
    "unblock": PageAction({"step": TEXT, "plan": TEXT}, _unblock, _preview),
    "resume": PageAction(_RESUME_FIELDS, _resume, _preview_resume),
    "stop": PageAction({}, _stop, _preview),
    "rollback": PageAction(_ROLLBACK_FIELDS, _rollback, _preview_rollback),
    "fork": PageAction({"at": TEXT, "branch": TEXT, "run_id": TEXT}, _fork, _preview),
    "archive": PageAction({}, _archive, _preview),
}
