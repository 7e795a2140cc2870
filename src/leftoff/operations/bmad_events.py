"""BMAD's `workflow.xml` elements `checkpoint-save`, `-update` and `-close`: read from a text, and reported.

The text has no root element and need not be XML throughout: agents do not escape `&` and `<` in it. Tags have no
attributes, and entities cannot grow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from typing import Any

from leftoff.engine import step_lifecycle as lifecycle
from leftoff.engine.caller import Caller
from leftoff.engine.commit import Seal
from leftoff.engine.git import remember_git
from leftoff.engine.git_head import git_head
from leftoff.engine.opening import status_changes
from leftoff.engine.project import Project
from leftoff.engine.report_commit import Reported
from leftoff.engine.run_reader import Reader
from leftoff.engine.step_reports import StepReport, step_changes
from leftoff.errors import LeftoffError, Usage
from leftoff.model.changes import ChangeSet
from leftoff.model.codec import decode
from leftoff.model.ids import check_run_id
from leftoff.operations.run_lifecycle import Start, start_or_continue
from leftoff.operations.run_reports import StepChange, current_row, report_run
from leftoff.protocols.bmad import DIALECT, STATUS, workflow_of
from leftoff.protocols.document_draft import fit_id, last_of, step_of
from leftoff.protocols.loose_values import Rejected, Repairs, meaning, shown
from leftoff.protocols.protocol import state_at
from leftoff.store.base import Tx
from leftoff.store.rows import RunRow

FIELDS = {
    "checkpoint-save": ("run-id", "step-number", "variables", "status"),
    "checkpoint-update": ("run-id", "step-completed", "artefact", "next-step"),
    "checkpoint-close": ("run-id", "status", "summary"),
}
STATUSES = ("running", "completed", "failed", "paused")  # the protocol's
MOST = 1 << 20  # characters
ANNOUNCED = "announced"  # in the record of a step that was only named as the next one
_SKIPPED = re.compile(r"(\s+|<!--.*?-->|<\?.*?\?>)*", re.DOTALL)
_ELEMENT = re.compile(r"<([A-Za-z][\w.-]{0,60})\s*(?:/>|>(.*?)</\1>)", re.DOTALL)


@dataclass
class Event:
    """One element. ``given``: its run's id as it was written; ``run_id``: as it is kept. ``fields``: all its texts."""

    name: str
    fields: dict[str, str]
    given: str
    run_id: str | None
    status: str | None
    variables: dict[str, Any]

    @property
    def aliases(self) -> tuple[str, ...]:
        """Return the run's id as it was written, if it had to be changed."""
        return (self.given,) if self.given != (self.run_id or "") and self.given.isprintable() else ()

    def number(self, key: str) -> int | None:
        text = self.fields.get(key, "")
        if text and not (text.isascii() and text.isdigit() and len(text) < 6):
            raise Rejected(f"<{self.name}>: {key} must be a step's number, not {shown(text)}.")
        return int(text) if text else None


def parse(text: str) -> list[Event]:
    """Return the events of an input, also inside a root element. Raise if one of them cannot be read."""
    if len(text) > MOST:
        raise Rejected(f"The input has more than {MOST:,} characters.")
    return list(_events(text.lstrip("\ufeff")))


def _events(text: str, root: str | None = None) -> Iterator[Event]:
    for name, inside in _elements(text, "This"):
        if name in FIELDS:
            fields = dict(_elements(inside or "", f"<{name}>: this"))
            for field in fields:
                if field not in FIELDS[name]:
                    raise Rejected(f"<{name}> has no <{field}>; it has {', '.join(FIELDS[name])}.")
            yield _event(name, {field: _plain(value or "") for field, value in fields.items()})
        elif root is None and inside is not None:
            yield from _events(inside, name)
        else:
            raise Rejected(f"There is no event <{name}>; there are {', '.join(FIELDS)}.")


def _elements(text: str, what: str) -> Iterator[tuple[str, str | None]]:
    """Return the elements of a text and their content; ``None``: the element closes itself."""
    place = 0
    while (skipped := _SKIPPED.match(text, place)) and (place := skipped.end()) < len(text):
        match = _ELEMENT.match(text, place)
        if match is None:
            raise Rejected(f"{what} is no whole element: {shown(text[place : place + 40])}.")
        yield match[1], match[2]
        place = match.end()


def _plain(text: str) -> str:
    text = text.strip()
    cdata = text.startswith("<![CDATA[") and text.endswith("]]>")
    return text[9:-3].strip() if cdata else unescape(text)


def _event(name: str, fields: dict[str, str]) -> Event:
    given, word, run_id = fields.get("run-id", ""), fields.get("status", ""), None
    if given:
        try:
            run_id = check_run_id(fit_id(given))
        except LeftoffError:
            raise Rejected(f"<{name}>: {shown(given)} cannot name a run.") from None
    if word and meaning(word) is None:
        raise Rejected(f"<{name}>: there is no status {shown(word)}; there are {', '.join(STATUSES)}.")
    try:
        variables = decode(fields["variables"]) if fields.get("variables") else {}
    except ValueError:
        variables = None
    if not isinstance(variables, dict):
        said = shown(fields["variables"])
        raise Rejected(f"<{name}>: variables must be an object in JSON, not {said}.")
    status = STATUS.read(word, "running", Repairs(), "status") if word else None
    event = Event(name, fields, given, run_id, status, variables)
    for key in ("step-number", "step-completed", "next-step"):
        event.number(key)
    return event


# -- reporting


def take_event(project: Project, caller: Caller, event: Event) -> Reported:
    """Report an event to the run that it names, else to the current one."""
    caller.named = event.run_id or caller.named
    work = {"checkpoint-save": _save, "checkpoint-update": _update, "checkpoint-close": _close}
    return work[event.name](project, caller, event)


def _save(project: Project, caller: Caller, event: Event) -> Reported:
    """Before a step: start the run if it is new, set its variables and status, and start the step."""
    run_id, store, at, number = event.run_id, project.store, project.now, event.number("step-number")
    if run_id is not None and not (store.exists() and store.read(lambda view: view.find_run(run_id))):
        start_or_continue(project, caller, Start(workflow_of(run_id), run_id=run_id))

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        for key, value in event.variables.items():
            changes.put("variable", key, value)
        changes.put("run", "status", event.status or "running")
        if number is not None:
            path = step_of(state_at(store, tx, row, DIALECT).leaves, number)
            record = Reader(store, tx, row.run, row.run_id).value("step", path)
            if record is None or record.plain.get("status") not in ("running", "completed"):
                step_changes(store, tx, row, changes, StepReport("start", path), at)

    return report_run(project, caller, make, at=at)


def _update(project: Project, caller: Caller, event: Event) -> Reported:
    """After a step: complete it with its artefact, and declare the next one."""
    number, upcoming, store = event.number("step-completed"), event.number("next-step"), project.store
    if number is None:
        raise Usage("<checkpoint-update> needs a <step-completed>.", hint="Its number, from 1.")
    row, output = current_row(project, caller), event.fields.get("artefact", "")
    caller.named = row.run_id  # the step is one of this run
    leaves = store.read(lambda view: state_at(store, view, row, DIALECT)).leaves

    done = StepReport("done", step_of(leaves, number))
    change = StepChange(project, caller, done, [output] if output else [])

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        seal = change.put(tx, row, changes)
        if upcoming is not None:
            leaves = state_at(store, tx, row, DIALECT).leaves
            total, path = row.card.get("total"), step_of(leaves, upcoming)
            last = (
                total if isinstance(total, int) else last_of(leaves)
            )  # the protocol also names one after it
            if (last is None or upcoming <= last) and tx.row(row.run, "step", path) is None:
                lifecycle.put(changes, path, lifecycle.declare(upcoming - 1, {ANNOUNCED: True}))
        if seal is not None:
            seal.aliases += event.aliases
        return seal

    return report_run(project, caller, make, row=change.row, blobs=change.blobs, at=change.at)


def _close(project: Project, caller: Caller, event: Event) -> Reported:
    """At the end: set the run's status and summary, and remove steps that were only announced."""
    status = event.status or "completed"
    summary = project.redactor.mask(event.fields.get("summary", "")) or None
    at, head = project.now, git_head(project.folder)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal:
        status_changes(changes, status, at, summary=summary)
        steps = lifecycle.steps_in(project.store, tx, row, changes, 0)
        for path, step in steps.all().items() if status == "completed" else ():
            if step.get("status") == "pending" and step.get(ANNOUNCED):
                steps.remove(path)
        remember_git(head, row, changes)
        return Seal("session_end", note=summary, aliases=event.aliases)

    return report_run(project, caller, make, at=at)
