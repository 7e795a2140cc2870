"""crunch: `.claude/crunch/{issue}/checkpoints/CP-….yaml`, one file per checkpoint, one run per issue."""

from __future__ import annotations

import os
import re

from leftoff.clock import compact, iso
from leftoff.dialects.core.draft import version_numbers
from leftoff.dialects.core.files import decode_files, entry_of
from leftoff.dialects.core.issues import decode_issues, encode_issues
from leftoff.dialects.core.repairs import Rejected, Repairs, TooNew, shown
from leftoff.dialects.core.times import read_time
from leftoff.dialects.crunch import parts
from leftoff.dialects.crunch.config import load as load_config
from leftoff.dialects.crunch.files import CrunchFiles
from leftoff.dialects.crunch.parts import PHASES, phase_at_work
from leftoff.engine.retention.policy import phase
from leftoff.errors import LeftoffError
from leftoff.model.hashing import sha256
from leftoff.model.ids import slug
from leftoff.model.words import ISSUE as SNAPSHOT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.dialects.core.draft import Draft, State
    from leftoff.dialects.core.repairs import Reject
    from leftoff.dialects.importing.places import Loaded
    from leftoff.engine.retention.policy import Policy
    from leftoff.model.versions import Version

    Index = dict[str, tuple[int, str, str | None]]

VERSION = "1.0"
INDEX = "index.yaml"
KEYS = tuple(
    """checkpoint_id version created_at issue_number session_id workflow_state issue_snapshot team_state
    execution_graph agent_outputs acp_state knowledge_context files_modified recovery_info""".split()
)
ISSUE = ("title", "body", "labels", "assignees", "branch", "state", "taken_at")
_NAME = re.compile(r"CP-[A-Za-z0-9][A-Za-z0-9._-]{0,199}\Z")  # what can be the name of a file
_CP = re.compile(r"CP-([a-z]+)-(\d{8})-([0-9a-f]{4,})\Z")


class Crunch(CrunchFiles):
    name = "crunch"
    about = "Crunch: .claude/crunch/{issue}/checkpoints/CP-….yaml"
    starts = "leftoff start crunch --issue 42"
    example = (
        ".claude/crunch/42/checkpoints/CP-enrich-20250114-a3f2.yaml",
        {
            "checkpoint_id": "CP-enrich-20250114-a3f2",
            "version": "1.0",
            "issue_number": 42,
            "workflow_state": {"current_phase": "enrich"},
            "recovery_info": {"can_resume": True, "resume_from": "enrich"},
        },
    )
    keys = KEYS
    yaml = True
    files = r"/\.claude/crunch/[^/]+/checkpoints/[^/]+\.ya?ml(\.gz)?$"

    id_names_version = True

    def is_own_id(self, name: str) -> bool:
        return _NAME.match(name) is not None

    def group(self, paths: list[str]) -> list[list[str]]:
        """A folder's checkpoints and their index; one that was named alone is taken alone."""
        folders: dict[str, list[str]] = {}
        for path in paths:
            folders.setdefault(os.path.dirname(path), []).append(path)
        for folder, found in folders.items():
            index = os.path.join(folder, INDEX)
            if found == [index]:
                names = sorted(name for name in os.listdir(folder or ".") if name.startswith("CP-"))
                found += [os.path.join(folder, name) for name in names]
            elif len(found) > 1 and index not in found and os.path.isfile(index):
                found.append(index)
        return list(folders.values())

    def hints(self, path: str) -> dict[str, str]:
        issue = path.rpartition("/crunch/")[2].partition("/checkpoints/")[0]
        return {"issue": issue} if issue and "/" not in issue else {}

    def load(self, paths: list[str], load: Callable[[str], Loaded], reject: Reject) -> list[Loaded]:
        """In the order of the index, with its triggers; what the index does not name follows by time."""
        index, found = {}, []
        if len(paths) == 1:  # a checkpoint that was named alone: its trigger is in the index beside it
            index = self._index_beside(paths[0], load)
        alone = bool(index)
        for path in paths:
            try:
                loaded = load(path)
            except LeftoffError as error:
                reject(path, error)
                continue
            if isinstance(loaded.document.get("checkpoints"), list):
                index = read_index(loaded.document, loaded.repairs, loaded.source.modified)
            else:
                found.append(loaded)
        return in_order(index, found, whole=not alone)

    @staticmethod
    def _index_beside(path: str, load: Callable[[str], Loaded]) -> Index:
        place = os.path.join(os.path.dirname(path), INDEX)
        if os.path.basename(path) == INDEX or not os.path.isfile(place):
            return {}
        try:
            loaded = load(place)
        except LeftoffError:
            return {}
        return read_index(loaded.document, Repairs(), loaded.source.modified)

    def retention(self, project: str) -> Policy:
        return load_config(project).policy()

    def phase_of(self, version: Version) -> str:
        """The phase in the checkpoint's own id, else that of its step."""
        for name in version.aliases:
            match = _CP.match(name)
            if match is not None:
                return match[1]
        return phase(version)

    def recognise(self, document: dict[str, Any], path: str) -> int:
        own = sum(key in document for key in KEYS)
        given = document.get("checkpoint_id")
        if isinstance(given, str) and given.startswith("CP-") and own >= 3:
            return 60 + own
        return 55 + own if "issue_number" in document and own >= 3 else 0

    def opening(self, given: dict[str, Any], now: int) -> tuple[str | None, list[str]]:
        """`crunch-{issue}`: one run per issue, through the five phases."""
        steps = list(PHASES) if given["workflow"] == self.name else []
        return (slug(f"crunch-{given['issue']}") if given.get("issue") and steps else None), steps

    def state_label(self, state: State) -> str | None:
        return f"state:{phase_at_work(state)}"

    # -- reading

    def decode(self, draft: Draft, document: dict[str, Any]) -> None:
        _check_version(document, draft)
        self._name(draft, document)
        draft.run("workflow", "crunch")
        draft.run("branch", "main")
        draft.run("session_id", draft.text(document, "session_id"))
        draft.at = draft.time(document, "created_at")
        if draft.known is None and draft.at is not None:  # the protocol has no other start of a run
            draft.run("created_at", iso(draft.at))
        draft.alias(draft.text(document, "checkpoint_id") or "")
        recovery = draft.mapping(document, "recovery_info")
        draft.run("status", "running")
        if recovery.get("can_resume") is False:
            draft.run("can_resume", False)
        phase = self._phases(draft, draft.mapping(document, "workflow_state"), recovery.get("resume_from"))
        self._issue(draft, draft.mapping(document, "issue_snapshot"))
        parts.decode_team(draft, draft.mapping(document, "team_state"))
        parts.decode_graph(draft, draft.mapping(document, "execution_graph"), phase)
        parts.decode_outputs(draft, draft.mapping(document, "agent_outputs"), phase)
        parts.decode_flags(draft, draft.mapping(document, "acp_state"), parts.ACP)
        parts.decode_flags(draft, draft.mapping(document, "knowledge_context"), parts.KNOWLEDGE)
        decode_files(draft, draft.entries(document, "files_modified"), None, "files_modified")
        decode_issues(draft, draft.entries(recovery, "warnings"), "warning")

    @staticmethod
    def _name(draft: Draft, document: dict[str, Any]) -> None:
        issue = document.get("issue_number")
        if isinstance(issue, bool) or not isinstance(issue, (int, str)) or issue == "":
            issue = draft.source.hints.get("issue")
            if issue is None:
                raise Rejected(f"{draft.source.path} is no crunch checkpoint: it has no issue_number.")
            draft.repairs.add(f"issue_number is missing; the folder's name is taken: {issue}.")
        draft.name(f"crunch-{issue}")
        draft.run("issue", str(issue))

    def _phases(self, draft: Draft, about: dict[str, Any], resume_from: Any) -> str:
        phase = self._phase(draft, about)
        label = about.get("current_state_label")
        if isinstance(label, str) and label != f"state:{phase}":
            draft.repairs.add(f"the label {shown(label)} contradicts the phase {phase}, which counts.")
        here = PHASES.index(phase)
        over = resume_from in PHASES[here + 1 :]  # what is left is in another phase: it moves on to that
        for order, name in enumerate(PHASES):
            status = "completed" if order < here else "running" if order == here else "pending"
            record: dict[str, Any] = {"status": status, "order": order}
            if order == here:
                record["status"] = "completed" if over else "running"
                started, attempt = draft.iso(about, "phase_started_at"), draft.number(about, "phase_attempt")
                record.update(
                    {k: v for k, v in (("started_at", started), ("attempt", attempt)) if v is not None}
                )
            draft.put("step", name, record)
        return phase

    @staticmethod
    def _phase(draft: Draft, about: dict[str, Any]) -> str:
        phase = draft.text(about, "current_phase") or ""
        if phase in PHASES:
            return phase
        match = _CP.match(str(draft.aliases[-1])) if draft.aliases else None
        named = match[1] if match and match[1] in PHASES else None
        if named is None and not about:
            raise Rejected(f"{draft.source.path} has no workflow_state: nobody knows which phase it is in.")
        guess = named or PHASES[0]
        draft.repairs.add(f"workflow_state.current_phase {shown(phase)} is no phase; read as {guess}.")
        return guess

    @staticmethod
    def _issue(draft: Draft, snapshot: dict[str, Any]) -> None:
        draft.run("title", draft.text(snapshot, "title"))
        draft.run("git_branch", draft.text(snapshot, "branch"))
        about = {key: value for key, value in snapshot.items() if key not in ("title", "branch")}
        if about:
            draft.put("context", SNAPSHOT, about)

    # -- writing

    def encode(self, state: State) -> dict[str, Any]:
        phase, record = parts.current_phase(state)
        return {
            "checkpoint_id": state.alias or own_id(state, phase),
            "version": VERSION,
            "created_at": state.updated_at,
            "issue_number": _number(state.run("issue")),
            "session_id": state.run("session_id"),
            "workflow_state": {
                "current_phase": phase,
                "current_state_label": f"state:{phase}",
                "phase_started_at": record.get("started_at"),
                "phase_attempt": record.get("attempt", 1),
            },
            "issue_snapshot": _issue_document(state, phase),
            "team_state": parts.encode_team(state),
            "execution_graph": parts.encode_graph(state, phase),
            "agent_outputs": parts.encode_outputs(state),
            "acp_state": parts.encode_flags(state, parts.ACP),
            "knowledge_context": parts.encode_flags(state, parts.KNOWLEDGE),
            "files_modified": [
                entry_of(key, about) for key, about in state.of("file").items() if isinstance(about, dict)
            ],
            "recovery_info": {
                "can_resume": parts.can_resume(state),
                "resume_from": parts.resume_from(state, parts.phase_at_work(state)),
                "prerequisites_met": True,
                "warnings": encode_issues(state),
            },
        }


def _check_version(document: dict[str, Any], draft: Draft) -> None:
    """A newer form of the document is not guessed at."""
    given = document.get("version")
    if given is None or given == VERSION:
        return
    numbers = version_numbers(given)
    if numbers is None:
        draft.repairs.add(f"version: {shown(given)} is no version; read as {VERSION}.")
    elif numbers > (version_numbers(VERSION) or []):
        raise TooNew(f"{draft.source.path} has version {given}; this leftoff knows up to {VERSION}.")
    else:
        draft.repairs.add(f"version: {shown(given)} is read as {VERSION}.")


def own_id(state: State, phase: str, length: int = 4) -> str:
    """`CP-{phase}-{YYYYMMDD}-{hex}`, for a version that has no such name yet."""
    mark = sha256(f"{state.run_id}:{state.at}".encode()).hexdigest()[:length]
    return f"CP-{phase}-{compact(state.at)[:8]}-{mark}"


def _number(issue: Any) -> Any:
    return (
        int(issue)
        if isinstance(issue, str) and issue.isascii() and issue.isdigit() and len(issue) < 16
        else issue
    )


def _issue_document(state: State, phase: str) -> dict[str, Any]:
    about = state.of("context").get(SNAPSHOT)
    known = about if isinstance(about, dict) else {}
    return {
        "title": state.run("title") or known.get("title"),
        "body": known.get("body"),
        "labels": known.get("labels", [f"state:{phase}"]),
        "assignees": known.get("assignees", []),
        **{key: value for key, value in known.items() if key not in ISSUE},
        "branch": state.run("git_branch") or known.get("branch"),
    }


def read_index(document: dict[str, Any], repairs: Any, modified: int) -> Index:
    """Of each checkpoint in an index: where it stands, its trigger, and its time."""
    out: Index = {}
    entries = document.get("checkpoints")
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        name = entry.get("checkpoint_id") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            repairs.add(f"index.yaml: {shown(entry)} names no checkpoint.")
            continue
        when = read_time(entry.get("created_at"), repairs, "index.yaml", modified or None)
        out[name] = (number, str(entry.get("trigger", "manual")), iso(when) if when is not None else None)
    return out


def in_order(index: Index, found: list[Loaded], *, whole: bool) -> list[Loaded]:
    """Checkpoints as the index has them; of a whole folder, an entry whose file is gone is told with the newest one."""

    def place(loaded: Loaded) -> tuple[int, str, str]:
        known = index.get(str(loaded.document.get("checkpoint_id")))
        return (known[0] if known else len(index)), str(loaded.document.get("created_at")), loaded.source.path

    found.sort(key=place)
    for loaded in found:
        known = index.get(str(loaded.document.get("checkpoint_id")))
        if known is not None:
            loaded.trigger = known[1]
        elif index and whole:
            loaded.repairs.add(f"{loaded.source.name} is not in index.yaml; taken in behind those that are.")
    there = {str(loaded.document.get("checkpoint_id")) for loaded in found}
    for name in index if whole else ():
        if name not in there and found:
            found[-1].repairs.add(f"index.yaml names {name}, whose file is not there or cannot be read.")
    return found


DIALECT = Crunch()
