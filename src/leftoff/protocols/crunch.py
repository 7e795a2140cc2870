"""Crunch: `.claude/crunch/{issue}/checkpoints/CP-….yaml`, one file per checkpoint, one run per issue.

Next to the checkpoints are `index.yaml` and the link `latest`. Phases, batches, nodes and outputs of agents are steps;
team members, messages, conflicts and knowledge are separate records.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from glob import glob
from typing import Any

from leftoff.clock import compact, iso
from leftoff.engine.commit import Seal
from leftoff.engine.issue_tracker import STATE_LABEL
from leftoff.engine.project_files import ProjectFiles
from leftoff.engine.retention_policy import ALL, DEFAULT, Keep, Policy, dropped, policy
from leftoff.engine.retention_policy import phase as phase_of_step
from leftoff.engine.step_lifecycle import put as put_step
from leftoff.errors import Invalid, LeftoffError
from leftoff.model.changes import PUT, ChangeSet, Version
from leftoff.model.codec import payload, sha256
from leftoff.model.ids import quote_part, slug, unquote_part
from leftoff.model.words import ISSUE as SNAPSHOT
from leftoff.model.words import ROLLBACK_BEGIN, TRIGGERS, UNFINISHED
from leftoff.protocols.document_draft import (
    DONE,
    NUMBER,
    STEP_FIELDS,
    Draft,
    State,
    about_file,
    is_int,
    without,
)
from leftoff.protocols.document_text import pack, read_bytes, read_document
from leftoff.protocols.document_yaml import dump_yaml
from leftoff.protocols.import_documents import Loaded
from leftoff.protocols.loose_values import (
    Reject,
    Rejected,
    Repairs,
    TooNew,
    shown_value,
    step_words,
    version_numbers,
)
from leftoff.protocols.protocol import Protocol, own_alias, write
from leftoff.protocols.sync import Sync
from leftoff.store.base import Tx, View
from leftoff.store.rows import RunRow

VERSION = "1.0"
INDEX, LATEST = "index.yaml", "latest"
KEYS = tuple(
    """checkpoint_id version created_at issue_number session_id workflow_state issue_snapshot team_state
    execution_graph agent_outputs acp_state knowledge_context files_modified recovery_info""".split()
)
PHASES = ("enrich", "ready", "implementing", "validation", "docs")
NODES = step_words({"running": "in_progress"}, {"running": "running"})
#: lists of ids. Section: field: collection, flag of the record
FLAGS = {
    "acp_state": {
        "pending_messages": ("message", "pending"),
        "awaiting_response": ("message", "awaiting_response"),
        "conflicts_in_progress": ("conflict", "in_progress"),
    },
    "knowledge_context": {
        "injected_entries": ("knowledge", "injected"),
        "captured_entries": ("knowledge", "captured"),
        "pending_captures": ("knowledge", "pending"),
    },
}
#: the flag of a record that has none
UNFLAGGED = {"message": "pending", "conflict": "in_progress", "knowledge": "captured"}
_RESOLVED = ("resolved", "answered", "done", "closed", "completed")
_AT_WORK = ("running", "waiting", "blocked", "failed")
_NAME = re.compile(r"CP-[A-Za-z0-9][A-Za-z0-9._-]{0,199}\Z")  # what can be the name of a file
_CP = re.compile(r"CP-([a-z]+)-(\d{8})-([0-9a-f]{4,})\Z")
_BATCH = re.compile(r"batch-(\d{1,6})\Z")
_NODE = re.compile(r"batch_(\d{1,6})_(.+)\Z", re.DOTALL)
_STEP = STEP_FIELDS | {"total", "node"}
_OUTPUT = ("completed_at", "output_summary", "output_location")


# -- `.claude/checkpoint-config.yaml`: what is sealed, what is kept, and where the files go

FILE = ".claude/checkpoint-config.yaml"
LOCATION = ".claude/crunch/{issue}/checkpoints"
#: the protocol's table, and our decision for the triggers that it leaves open (the last three)
TABLE = {
    "phase_transition": Keep(ALL),
    "batch_complete": Keep(3, per_phase=True),
    "agent_complete": Keep(1, per_phase=True),
    "conflict_resolved": Keep(ALL),
    "user_interrupt": Keep(1),
    "manual": Keep(ALL),
    "conflict_start": Keep(ALL),
    "session_end": Keep(1),
    "batch_start": Keep(3, per_phase=True),
}
#: the switch of `checkpoint_triggers` that a trigger has
SWITCHES = {
    "phase_transition": "phase_transition",
    "batch_complete": "batch_complete",
    "agent_complete": "agent_complete",
    "conflict_start": "conflict_events",
    "conflict_resolved": "conflict_events",
}
#: triggers that a user asked for: sealed even if others are switched off
ASKED = ("manual", "user_interrupt", "session_end", "rollback", ROLLBACK_BEGIN, "external")

EXAMPLE: dict[str, Any] = {
    "checkpoint": {
        "enabled": True,
        "auto_checkpoint": True,
        "checkpoint_triggers": {
            "phase_transition": True,
            "batch_complete": True,
            "agent_complete": False,
            "conflict_events": True,
        },
        "retention": {trigger: keep.count for trigger, keep in list(TABLE.items())[:6]},
        "storage": {"location": LOCATION, "compress": False, "max_size_mb": 50},
    }
}


class Config:
    """The settings of the file, with the protocol's own values for the rest."""

    def __init__(self, document: dict[str, Any]) -> None:
        section = _setting(document, "checkpoint", {})
        storage = _setting(section, "storage", {})
        self.enabled = _setting(section, "enabled", True)
        self.auto = _setting(section, "auto_checkpoint", True)
        switches = _setting(section, "checkpoint_triggers", {})
        self.off = {name for name in switches if not _setting(switches, name, True)}
        self.compress = _setting(storage, "compress", False)
        location = _setting(storage, "location", LOCATION)
        parts = location.split("/")
        if parts[0] == "" or ".." in parts or "{issue}" not in location or "\0" in location:
            what = "storage.location must be a folder inside the project with {issue} in it"
            raise _wrong(f"{what}, not {location!r}")
        self.location = os.path.normpath(location)
        size, keep = storage.get("max_size_mb"), {**DEFAULT.keep, **TABLE}
        if size is not None and (not isinstance(size, (int, float)) or isinstance(size, bool) or size <= 0):
            raise _wrong(f"max_size_mb must be a number, not {size!r}")
        for trigger, count in _setting(section, "retention", {}).items():
            if not is_int(count) or count < ALL:
                raise _wrong(f"retention.{trigger} must be a number, -1 for all, not {count!r}")
            keep[trigger] = Keep(count, per_phase=trigger in keep and keep[trigger].per_phase)
        most = int(size * 10**6) if size is not None else None
        self.policy = Policy(keep=keep, runs=DEFAULT.runs, max_bytes=most)

    def seals(self, trigger: str) -> bool:
        """Return whether a checkpoint of this trigger is sealed. Others are only committed."""
        on = self.enabled and self.auto and SWITCHES.get(trigger) not in self.off
        return bool(trigger in ASKED or on)


def load_config(project: str) -> Config:
    """Return the project's configuration."""
    path = os.path.join(project, FILE)
    if not os.path.lexists(path):
        return Config({})
    try:
        return Config(read_document(read_bytes(path), path, Repairs()))
    except Invalid as error:
        raise Invalid(error.message, hint=f"Correct {FILE}, or remove it.") from None


def _wrong(what: str) -> Invalid:
    return Invalid(f"{FILE}: {what}.")


def _setting(section: dict[str, Any], key: str, default: Any) -> Any:
    """Return a setting of the same type as the default."""
    found = section.get(key)
    if found is None:
        return default
    if type(found) is not type(default):
        wanted = {bool: "be true or false", dict: "have keys"}.get(type(default), "be text")
        raise _wrong(f"{key} must {wanted}, not {found!r}")
    return found


# -- the protocol


class Crunch(Protocol):
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
    shows_all = False
    id_names_version = True
    files = r"/\.claude/crunch/[^/]+/checkpoints/[^/]+\.ya?ml(\.gz)?$"

    def recognise(self, document: dict[str, Any], path: str) -> int:
        own = sum(key in document for key in KEYS)
        given = document.get("checkpoint_id")
        if isinstance(given, str) and given.startswith("CP-") and own >= 3:
            return 60 + own
        return 55 + own if "issue_number" in document and own >= 3 else 0

    def is_own_id(self, name: str) -> bool:
        return _NAME.match(name) is not None

    def includes(self, row: RunRow) -> bool:
        return bool(row.workflow == self.name)

    def opening(self, given: dict[str, Any], now: int) -> tuple[str | None, list[str]]:
        """One run per issue, through the five phases."""
        steps = list(PHASES) if given["workflow"] == self.name else []
        return (slug(f"crunch-{given['issue']}") if given.get("issue") and steps else None), steps

    def state_label(self, state: State) -> str | None:
        return f"state:{phase_at_work(state)}"

    def retention(self, project: str) -> Policy:
        return load_config(project).policy

    def phase_of(self, version: Version) -> str:
        """Return the phase in the checkpoint's own id, else that of its step."""
        found = (match[1] for name in version.aliases if (match := _CP.match(name)) is not None)
        return next(found, None) or phase_of_step(version)

    def hints(self, path: str) -> dict[str, str]:
        issue = path.rpartition("/crunch/")[2].partition("/checkpoints/")[0]
        return {"issue": issue} if issue and "/" not in issue else {}

    # -- the files of an issue

    def group(self, paths: list[str]) -> list[list[str]]:
        """Return the checkpoints of each folder. An index that was named stands for all of its folder."""
        folders: dict[str, list[str]] = {}
        for path in paths:
            folders.setdefault(os.path.dirname(path), []).append(path)
        for folder, found in folders.items():
            if found == [os.path.join(folder, INDEX)]:
                names = sorted(name for name in os.listdir(folder or ".") if name.startswith("CP-"))
                found += [os.path.join(folder, name) for name in names]
            found[:] = [path for path in found if os.path.basename(path) != INDEX]
        return [found for found in folders.values() if found]

    def load(self, paths: list[str], load: Callable[[str], Loaded], reject: Reject) -> list[Loaded]:
        """Read checkpoints in the order of the index, with its triggers. Others follow by time."""
        index: dict[str, str] = {}  # the trigger of each checkpoint
        notes, place = Repairs(), os.path.join(os.path.dirname(paths[0]), INDEX)
        whole = len(paths) > 1  # else what the folder or the index lacks is not reported
        entries = None
        try:
            entries = load(place).document.get("checkpoints") if os.path.isfile(place) else None
        except LeftoffError as error:
            if whole:
                reject(place, error)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and isinstance(entry.get("checkpoint_id"), str):
                index[entry["checkpoint_id"]] = str(entry.get("trigger", "manual"))
            else:
                notes.add(f"index.yaml: {shown_value(entry)} names no checkpoint.")
        places = {name: place for place, name in enumerate(index)}
        found: dict[tuple[int, str, str], Loaded] = {}
        there: set[str] = set()
        for path in paths:
            try:
                loaded = load(path)
            except LeftoffError as error:
                reject(path, error)
                continue
            name = str(loaded.document.get("checkpoint_id"))
            there.add(name)
            if name in index:
                loaded.trigger = index[name] if index[name] in TRIGGERS else "manual"
                if loaded.trigger != index[name]:
                    loaded.repairs.add(f"the trigger {index[name]!r} is unknown; read as manual.")
            elif index and whole:
                loaded.repairs.add(
                    f"{loaded.source.name} is not in index.yaml; taken in behind those that are."
                )
            found[places.get(name, len(places)), str(loaded.document.get("created_at")), path] = loaded
        for name in [name for name in index if whole and name not in there]:
            notes.add(f"index.yaml names {name}, whose file is not there or cannot be read.")
        out = [found[place] for place in sorted(found)]
        for line in notes.lines if out else ():
            out[-1].repairs.add(line)
        return out

    # -- reading

    def decode(self, draft: Draft, document: dict[str, Any]) -> None:
        given = document.get("version")
        if given is not None and given != VERSION:
            found = version_numbers(given)
            if found is not None and found > (version_numbers(VERSION) or []):
                raise TooNew(f"{draft.source.path} has version {given}; this leftoff knows up to {VERSION}.")
            wrong = "is no version; " if found is None else "is "
            draft.repairs.add(f"version: {shown_value(given)} {wrong}read as {VERSION}.")
        issue = document.get("issue_number")
        if isinstance(issue, bool) or not isinstance(issue, (int, str)) or issue == "":
            issue = draft.source.hints.get("issue")
            if issue is None:
                raise Rejected(f"{draft.source.path} is no crunch checkpoint: it has no issue_number.")
            draft.repairs.add(f"issue_number is missing; the folder's name is taken: {issue}.")
        draft.name(f"crunch-{issue}")
        draft.run("issue", str(issue))
        draft.run("workflow", self.name)
        draft.run("branch", "main")
        draft.run("session_id", draft.text(document, "session_id"))
        draft.at = draft.time(document, "created_at")
        if draft.known is None and draft.at is not None:  # the protocol has no other start of a run
            draft.run("created_at", iso(draft.at))
        draft.alias(draft.text(document, "checkpoint_id"))
        recovery = draft.mapping(document, "recovery_info")
        draft.run("status", "running")
        if recovery.get("can_resume") is False:
            draft.run("can_resume", False)
        about = draft.mapping(document, "workflow_state")
        phase = self._phases(draft, about, recovery.get("resume_from"))
        snapshot = draft.mapping(document, "issue_snapshot")
        draft.fields(snapshot, {"title": ("title", "text"), "branch": ("git_branch", "text")})
        if without(snapshot, "title", "branch"):
            draft.put("context", SNAPSHOT, without(snapshot, "title", "branch"))
        team = draft.mapping(document, "team_state")
        members = team.get("members")
        for number, entry in enumerate(members if isinstance(members, list) else []):
            if isinstance(entry, dict) and isinstance(entry.get("agent"), str):
                draft.put_free("member", entry["agent"], {**entry, NUMBER: number})
            else:
                draft.as_written("team_state.members", entry, "names no agent")
        if without(team, "members"):
            draft.put("context", "team", without(team, "members"))
        _decode_graph(draft, draft.mapping(document, "execution_graph"), phase)
        _decode_outputs(draft, draft.mapping(document, "agent_outputs"), phase)
        for section, lists in FLAGS.items():
            _decode_flags(draft, draft.mapping(document, section), lists)
        draft.files(document, "files_modified")
        draft.issues(draft.entries(recovery, "warnings"), "warning")

    @staticmethod
    def _phases(draft: Draft, about: dict[str, Any], resume_from: Any) -> str:
        phase = draft.text(about, "current_phase") or ""
        if phase not in PHASES:
            match = _CP.match(str(draft.aliases[-1])) if draft.aliases else None
            named = match[1] if match and match[1] in PHASES else None
            if named is None and not about:
                raise Rejected(
                    f"{draft.source.path} has no workflow_state: nobody knows which phase it is in."
                )
            guess = named or PHASES[0]
            draft.repairs.add(
                f"workflow_state.current_phase {shown_value(phase)} is no phase; read as {guess}."
            )
            phase = guess
        label = about.get("current_state_label")
        if isinstance(label, str) and label != f"state:{phase}":
            draft.repairs.add(f"the label {shown_value(label)} contradicts the phase {phase}, which counts.")
        here = PHASES.index(phase)
        over = resume_from in PHASES[here + 1 :]  # this phase is done, the next one has not begun
        for order, name in enumerate(PHASES):
            status = "completed" if order < here + over else "running" if order == here else "pending"
            record: dict[str, Any] = {"status": status, "order": order}
            if order == here:
                record["started_at"] = draft.iso(about, "phase_started_at")
                record["attempt"] = draft.number(about, "phase_attempt")
            draft.put("step", name, {key: value for key, value in record.items() if value is not None})
        return phase

    # -- writing

    def encode(self, state: State) -> dict[str, Any]:
        phase, record = current_phase(state)
        issue, known, team, members = state.run("issue"), state.about(SNAPSHOT), state.about("team"), []
        for key, entry in state.listed("member"):
            member = entry if isinstance(entry, dict) else {"role": entry}
            members.append({"agent": member.get("agent", key), **without(member, "agent", NUMBER)})
        digits = isinstance(issue, str) and issue.isascii() and issue.isdigit() and len(issue) < 16
        mark = sha256(f"{state.run_id}:{state.at}".encode()).hexdigest()[:4]
        return {
            "checkpoint_id": state.alias or f"CP-{phase}-{compact(state.at)[:8]}-{mark}",
            "version": VERSION,
            "created_at": state.updated_at,
            "issue_number": int(issue) if digits else issue,
            "session_id": state.run("session_id"),
            "workflow_state": {
                "current_phase": phase,
                "current_state_label": f"state:{phase}",
                "phase_started_at": record.get("started_at"),
                "phase_attempt": record.get("attempt", 1),
            },
            "issue_snapshot": {
                "title": state.run("title") or known.get("title"),
                "body": known.get("body"),
                "labels": known.get("labels", [f"state:{phase}"]),
                "assignees": known.get("assignees", []),
                **without(known, "title", "body", "labels", "assignees", "branch", "state", "taken_at"),
                "branch": state.run("git_branch") or known.get("branch"),
            },
            "team_state": {"team_id": team.get("team_id"), **team, "members": members},
            "execution_graph": _encode_graph(state, phase),
            "agent_outputs": _encode_outputs(state),
            **{section: _encode_flags(state, lists) for section, lists in FLAGS.items()},
            "files_modified": [
                {"path": path, **without(about_file(about), "path")}
                for path, about in state.of("file").items()
                if isinstance(about, dict)
            ],
            "recovery_info": {
                "can_resume": can_resume(state),
                "resume_from": _resume_from(state, phase_at_work(state)),
                "prerequisites_met": True,
                "warnings": state.issues(),
            },
        }

    # -- files

    def _path(self, config: Config, row: RunRow, name: str) -> str:
        return str(config.location.replace("{issue}", slug(str(row.issue or row.run_id)))) + f"/{name}"

    def _file(self, config: Config, alias: str) -> str:
        return f"{alias}.yaml.gz" if config.compress else f"{alias}.yaml"

    def present(self, project: str) -> list[str]:
        place = load_config(project).location.replace("{issue}", "*")
        found = (glob(f"{place}/CP-*.yaml{end}", root_dir=project) for end in ("", ".gz"))
        return sorted(path for paths in found for path in paths)

    def before(self, sync: Sync, row: RunRow) -> None:
        """Name and write every checkpoint that has no file yet, the newest one last."""
        config: Config = sync.config
        if not config.enabled:
            return
        known = sync.base.runs.setdefault(row.run_id, {}).setdefault("written", {})
        versions = sync.store.read(lambda view: view.versions(row.run, sealed=True))
        rules = policy(sync.settings.section("retention"), config.policy, auto=True)
        thinned = dropped(row, versions, rules, self.phase_of) if rules.auto else []
        if thinned:  # the protocol thins out when a checkpoint is made
            gone = {each.version.seq for each in thinned if each.version is not None}
            sync.store.prune(row.run, sorted(gone))
            versions = [version for version in versions if version.seq not in gone]
        there = set()
        for version in reversed(versions):
            alias = own_alias(self, version) or self._named(sync, row, version)
            path = self._path(config, row, self._file(config, alias))
            if version is not versions[0] and sync.files.stat(known.get(alias, path)) is None:
                data = pack(dump_yaml(write(self, sync.state(row, version.seq))).encode(), path)
                sync.put_bytes(path, data)
            known.setdefault(alias, path)
            there.add(alias)
        for alias in [alias for alias in known if alias not in there]:  # pruned
            path = known.pop(alias)
            sync.base.forget(path)
            sync.remove(path)

    def _named(self, sync: Sync, row: RunRow, version: Version) -> str:
        """Give a checkpoint the alias `CP-{phase}-{YYYYMMDD}-{4 hex, longer if taken}`."""
        phase = (version.step or "").partition("/")[0]
        phase = phase if phase in PHASES else current_phase(sync.state(row, version.seq))[0]
        mark = version.checkpoint or sha256(f"{row.run_id}:{version.seq}".encode()).hexdigest()

        def work(tx: Tx) -> str:
            own = own_alias(self, tx.version(row.run, version.seq))
            if own is not None:
                return own
            length = 4
            while tx.aliased(name := f"CP-{phase}-{compact(version.at)[:8]}-{mark[:length]}"):
                length += 1
            tx.add_alias(row.run, version.seq, name)
            return name

        return sync.store.write(work)

    def shown(self, sync: Sync, row: RunRow) -> State | None:
        """Return the newest checkpoint. Plain commits are in no file."""
        newest = sync.store.read(lambda view: view.versions(row.run, sealed=True, limit=1))
        if not newest or not sync.config.enabled:
            return None
        return sync.state(row, newest[0].seq)

    def places(self, sync: Sync, row: RunRow, state: State) -> dict[str, str | None]:
        if state.alias is None:  # not named yet
            return {}
        return {self._path(sync.config, row, self._file(sync.config, state.alias)): None}

    def leave(self, sync: Sync, path: str, run_id: str) -> None:
        """Older checkpoints are not moved."""
        sync.base.forget(path)

    def after(self, sync: Sync, row: RunRow, state: State) -> None:
        """Write the index and the link to the latest checkpoint."""
        entries = self._entries(sync, row, state)
        index = {
            "issue_number": int(row.issue) if str(row.issue).isdigit() else row.issue,
            "checkpoints": entries,
            "latest": state.alias,
            "total_checkpoints": len(entries),
        }
        sync.put_bytes(self._path(sync.config, row, INDEX), dump_yaml(index).encode())
        sync.link(self._path(sync.config, row, LATEST), self._file(sync.config, str(state.alias)))

    def _entries(self, sync: Sync, row: RunRow, state: State) -> list[dict[str, object]]:
        """Return every checkpoint of the issue once. An edit of its file does not make another one."""
        known = sync.base.runs.setdefault(row.run_id, {}).setdefault("stopped", [])
        stops = [] if can_resume(state) else [state.alias]
        known[:] = [alias for alias in known if alias != state.alias] + stops

        def look(view: View) -> list[tuple[str, Version]]:
            rows = view.list_runs({"workflow": row.workflow, "issue": row.issue}) if row.issue else [row]
            rows = sorted(rows, key=lambda each: each.run)
            return [(each.run_id, v) for each in rows for v in view.versions(each.run, sealed=True)[::-1]]

        out: dict[object, dict[str, object]] = {}
        for run_id, version in sync.store.read(look):
            alias = own_alias(self, version)
            stopped = sync.base.runs.get(run_id, {}).get("stopped", [])
            if alias is not None and alias not in out:
                out[alias] = {
                    "checkpoint_id": alias,
                    "created_at": iso(version.at),
                    "trigger": version.trigger,
                    "phase": self.phase_of(version),
                    "can_resume": alias not in stopped,
                }
        return list(out.values())

    def set_up(self, project: str) -> list[str]:
        files = ProjectFiles(project)
        if files.stat(FILE) is not None:
            return []
        files.create(FILE, dump_yaml(EXAMPLE).encode())
        return [FILE]

    def ignored(self, project: str) -> list[str]:
        return [".claude/crunch/*/checkpoints/"]

    # -- inside a commit

    def config(self, project: str) -> Config:
        return load_config(project)

    def sealed(self, tx: Tx, run: int, changes: ChangeSet, seal: Seal | None, config: Config) -> Seal | None:
        """Make a checkpoint for phases, batches, agents and conflicts. Other commits are not sealed."""
        _follow_label(tx, run, changes)
        trigger = _trigger_of(tx, run, changes, seal)
        if trigger is None or not config.seals(trigger):
            return None
        return Seal(trigger) if seal is None else Seal(trigger, seal.step, seal.note, seal.aliases)


def _follow_label(tx: Tx, run: int, changes: ChangeSet) -> None:
    """If the issue's label changed, skip the phases before the one that it names, and reopen the others."""
    change, known = changes.changes.get(("context", STATE_LABEL)), tx.record(run, "context", STATE_LABEL)
    if change is None or change.kind != PUT or (known is not None and known.stored == change.stored):
        return
    label = payload(change.stored, STATE_LABEL)
    phase = label.partition(":")[2] if isinstance(label, str) else ""
    for order, name in enumerate(PHASES if phase in PHASES else ()):
        given = changes.changes.get(("step", name))
        record = tx.record(run, "step", name) if given is None else None
        stored = given.stored if given is not None else record.stored if record is not None else None
        value = payload(stored, name) if stored is not None else {"status": "pending", "order": order}
        done, before = value["status"] in DONE, order < PHASES.index(phase)
        if done != before:
            put_step(changes, name, {**value, "status": "skipped" if before else "pending"})


def _trigger_of(tx: Tx, run: int, changes: ChangeSet, seal: Seal | None) -> str | None:
    """Return why the protocol makes a checkpoint here; ``None``: it does not."""
    if seal is None:  # a conflict, or the first step of a batch
        for (collection, key), change in changes.changes.items():
            parts = key.split("/")
            if collection == "conflict":
                return "conflict_resolved" if b"resolved" in change.stored else "conflict_start"
            if (
                collection == "step"
                and parts[0] in PHASES
                and len(parts) > 2
                and parts[1].startswith("batch-")
            ):
                begins = change.step is not None and change.step[0] == "running"
                if begins and all(status == "pending" for _, status in _in_batch(tx, run, parts)):
                    return "batch_start"
        return None
    if seal.trigger != "step_complete" or seal.step is None:
        return seal.trigger
    parts = seal.step.split("/")
    if parts[0] not in PHASES:
        return seal.trigger
    if len(parts) == 1:
        return "phase_transition"
    if not parts[1].startswith("batch-"):
        return "agent_complete"
    last = all(status in DONE for key, status in _in_batch(tx, run, parts) if key != seal.step)
    return "batch_complete" if len(parts) == 2 or last else None


def _in_batch(tx: Tx, run: int, parts: list[str]) -> list[tuple[str, str | None]]:
    """Return the steps of a batch with their statuses."""
    batch = "/".join(parts[:2])
    keys = [record.key for record in tx.records(run, "step", f"{batch}/", f"{batch}0")]
    return [(key, about[1]) for key in keys if (about := tx.row(run, "step", key)) is not None]


# -- phases


def can_resume(state: State) -> bool:
    return state.status in UNFINISHED and state.run("can_resume") is not False


def current_phase(state: State) -> tuple[str, dict[str, Any]]:
    """Return the phase that a checkpoint shows, and its record. A transition shows the phase that ended."""
    over = state.trigger == "phase_transition" and state.step in PHASES
    name = str(state.step) if over else phase_at_work(state)
    return name, state.step_record(name)


def phase_at_work(state: State) -> str:
    """Return the last active phase, else the first that is not done."""
    busy = {path.partition("/")[0] for path, step in state.steps if step.get("status") in _AT_WORK}
    left = [name for name in PHASES if state.step_record(name).get("status") not in DONE]
    at_work = [name for name in left if name in busy]
    return at_work[-1] if at_work else left[0] if left else PHASES[-1]


def _resume_from(state: State, phase: str) -> str | None:
    """Return where to continue, in the protocol's words: `batch_3_task_1`, else the step."""
    for path in state.left():
        parts = path.split("/")
        if parts[0] == phase:
            match = _BATCH.match(parts[1]) if len(parts) > 1 else None
            if match is None:
                return path
            return f"batch_{match[1]}_task_1" if len(parts) == 2 else _node_name(state, path)
    record = state.step_record(phase)
    return phase if record and record.get("status") not in DONE else None


# -- batches and nodes


def _decode_graph(draft: Draft, graph: dict[str, Any], phase: str) -> None:
    done = draft.ordinals(graph, "completed_batches")
    current = draft.number(graph, "current_batch")
    for number in sorted({*done, *([current] if current is not None and current > 0 else [])}):
        status = "completed" if number in done else "running"
        draft.put("step", f"{phase}/batch-{number}", {"status": status, "order": number})
    known: dict[str, str] = {}  # nodes that have a step already
    for path, _ in draft.known.steps if draft.known is not None else ():
        if draft.known is not None and _BATCH.search(path.rpartition("/")[0]):
            known.setdefault(_node_name(draft.known, path), path)
    for order, (name, node) in enumerate(draft.mapping(graph, "node_states").items()):
        about = node if isinstance(node, dict) else {"status": node}
        status = NODES.read(about.get("status"), "pending", draft.repairs, f"node {name}")
        known_keys = ("status", "order", "node", "started_at", "completed_at")
        record = {"status": status, "order": order, **without(about, *known_keys), **draft.times(about)}
        path, match = known.get(name, ""), _NODE.match(name)
        if not path and match:
            path = f"{phase}/batch-{int(match[1])}/{quote_part(match[2])}"
        elif not path:  # its status says the batch
            batch = max(done) if status in DONE and done else (current or 1)
            path, record["node"] = f"{phase}/batch-{batch}/{quote_part(name)}", name
        if not draft.put("step", path, record):
            draft.repairs.add(f"the node {shown_value(name)} cannot be a step; kept as it is written.")
    if graph.get("graph_id") is not None:
        draft.put("context", "graph", {"graph_id": graph["graph_id"]})


def _node_name(state: State, path: str) -> str:
    above, _, task = path.rpartition("/")
    name = state.step_record(path).get("node")
    return name if isinstance(name, str) else f"batch_{above.rpartition('-')[2]}_{unquote_part(task)}"


def _encode_graph(state: State, phase: str) -> dict[str, Any]:
    nodes: dict[str, Any] = {}
    left: set[int] = set()
    done: set[int] = set()
    for path, step in state.leaves:
        parts = path.split("/")
        match = _BATCH.match(parts[1]) if len(parts) > 1 and parts[0] == phase else None
        if match is None:
            continue
        (done if step.get("status") in DONE else left).add(int(match[1]))
        if len(parts) > 2:
            fields = ("result", "started_at", "completed_at", "error")
            known = {key: step[key] for key in fields if step.get(key) is not None}
            status = NODES.write(str(step.get("status")))
            nodes[_node_name(state, path)] = {"status": status, **known, **without(step, *_STEP)}
    finished = sorted(done - left)
    return {
        "graph_id": state.about("graph").get("graph_id"),
        "completed_batches": finished,
        "current_batch": min(left) if left else finished[-1] + 1 if finished else None,
        "node_states": nodes,
    }


# -- outputs of agents


def _decode_outputs(draft: Draft, outputs: dict[str, Any], phase: str) -> None:
    known: dict[str, str] = {}
    for path, _ in draft.known.steps if draft.known is not None else ():
        known.setdefault(path.partition("/")[2], path)
    for agent, tasks in outputs.items():
        for task, about in tasks.items() if isinstance(tasks, dict) else ():
            if not isinstance(about, dict):
                draft.as_written(f"agent_outputs.{agent}.{task}", about, "is no output")
                continue
            own = f"{quote_part(agent)}/{quote_part(task)}"
            path, place = known.get(own, f"{phase}/{own}"), about.get("output_location")
            place = place if isinstance(place, str) and place else None
            record = {
                "status": "completed",
                "order": len(draft.records),
                "completed_at": draft.iso(about, "completed_at"),
                "result": about.get("output_summary"),
                "outputs": [place] if place else None,
            }
            record = {key: value for key, value in record.items() if value is not None}
            if not draft.put("step", path, record | without(about, *_OUTPUT, *_STEP)):
                draft.repairs.add(
                    f"agent_outputs: {shown_value(task)} of {shown_value(agent)} cannot be a step; "
                    "kept as it is written."
                )
            elif place:
                draft.put("artifact", place, {"path": place, "step": path})


def _encode_outputs(state: State) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for path, step in state.leaves:
        parts = path.split("/")
        if len(parts) != 3 or _BATCH.match(parts[1]) or step.get("status") not in DONE:
            continue
        places = step.get("outputs")
        out.setdefault(unquote_part(parts[1]), {})[unquote_part(parts[2])] = {
            "completed_at": step.get("completed_at"),
            "output_summary": step.get("result"),
            "output_location": places[0] if isinstance(places, list) and places else None,
            **without(step, *_STEP),
        }
    return out


# -- lists of ids: messages, conflicts, knowledge


def _decode_flags(draft: Draft, lists: dict[str, Any], table: dict[str, tuple[str, str]]) -> None:
    for key, (collection, flag) in table.items():
        for entry in draft.entries(lists, key):
            name = entry if isinstance(entry, str) else entry.get("id") if isinstance(entry, dict) else None
            if not isinstance(name, str) or not name:
                draft.as_written(key, entry, "has no id")
                continue
            about = {**(without(entry, "id") if isinstance(entry, dict) else {}), flag: True}
            there = draft.records.get((collection, name))
            if isinstance(there, dict):
                there.update(about)
            else:
                draft.put(collection, name, about)


def _encode_flags(state: State, table: dict[str, tuple[str, str]]) -> dict[str, Any]:
    out: dict[str, list[str]] = {key: [] for key in table}
    for collection in {collection: None for collection, _ in table.values()}:
        keys = {flag: key for key, (of, flag) in table.items() if of == collection}
        for name, entry in state.of(collection).items():
            about = entry if isinstance(entry, dict) else {}
            said = str(about.get("status", about.get("state")))
            if about.get("kind") in ("sync", "mirror") or said in _RESOLVED:  # a conflict of the sync
                continue
            word = said.lower().replace("-", "_").replace(" ", "_")
            flags = [flag for flag in keys if about.get(flag) is True]
            for flag in flags or [word if word in keys else UNFLAGGED[collection]]:
                out[keys[flag]].append(name)
    return out


PROTOCOL = Crunch()
