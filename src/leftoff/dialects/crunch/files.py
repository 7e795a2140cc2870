"""crunch's files: one per checkpoint, their index, and the symlink to the latest."""

from __future__ import annotations

from glob import glob

from leftoff.clock import iso
from leftoff.dialects.core import yaml_text
from leftoff.dialects.core.base import Dialect, write
from leftoff.dialects.core.draft import DONE
from leftoff.dialects.core.reading import pack
from leftoff.dialects.core.versions import own_alias
from leftoff.dialects.crunch.config import EXAMPLE, FILE, load
from leftoff.dialects.crunch.parts import PHASES, can_resume, current_phase
from leftoff.dialects.mirror.memory import digest
from leftoff.engine.retention.policy import dropped, policy
from leftoff.engine.steps.lifecycle import put as put_step
from leftoff.engine.workspace.issue_tracker import STATE_LABEL
from leftoff.engine.workspace.project_files import ProjectFiles
from leftoff.engine.write.commit import Seal
from leftoff.model.changes import PUT
from leftoff.model.codec import payload
from leftoff.model.hashing import sha256
from leftoff.model.ids import slug

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.dialects.core.draft import State
    from leftoff.dialects.crunch.config import Config
    from leftoff.dialects.mirror.mirror import Mirror
    from leftoff.model.changes import ChangeSet
    from leftoff.model.versions import Version
    from leftoff.store.base import Tx, View
    from leftoff.store.rows import RunRow

INDEX, LATEST = "index.yaml", "latest"


class CrunchFiles(Dialect):
    shows_all = False

    def includes(self, row: RunRow) -> bool:
        return bool(row.workflow == "crunch")

    def _folder(self, config: Config, row: RunRow) -> str:
        return config.location.replace("{issue}", slug(str(row.issue or row.run_id)))

    def _file(self, config: Config, alias: str) -> str:
        return f"{alias}.yaml.gz" if config.compress else f"{alias}.yaml"

    def present(self, project: str) -> list[str]:
        place = load(project).location.replace("{issue}", "*")
        return sorted(
            glob(f"{place}/CP-*.yaml", root_dir=project) + glob(f"{place}/CP-*.yaml.gz", root_dir=project)
        )

    def before(self, mirror: Mirror, row: RunRow) -> bool:
        """Every checkpoint that has no file yet gets its name and its file, the newest one last."""
        config = load(mirror.project)
        if not config.enabled:
            return False
        known = mirror.memory.runs.setdefault(row.run_id, {}).setdefault("written", {})
        versions = self._thinned_out(mirror, row, config)
        folder = self._folder(config, row)
        there = set()
        for version in reversed(versions):
            alias = own_alias(self, version) or self._named(mirror, row, version)
            path = f"{folder}/{self._file(config, alias)}"
            if version is not versions[0] and mirror.files.stat(known.get(alias, path)) is None:
                data = pack(yaml_text.dump(write(self, mirror.state(row, version.seq))).encode(), path)
                mirror.memory.ours[digest(data)] = row.run_id
                mirror.put_bytes(path, data)
            known.setdefault(alias, path)
            there.add(alias)
        self._drop_pruned(mirror, known, there)
        return False

    def _thinned_out(self, mirror: Mirror, row: RunRow, config: Config) -> list[Version]:
        """The run's checkpoints; what the protocol's table no longer keeps goes when another one is made."""
        versions = mirror.store.read(lambda view: view.versions(row.run, sealed=True))
        rules = policy(mirror.settings.section("retention"), config.policy(), auto=True)
        gone = (
            {removal.seq for removal in dropped(row, versions, rules, self.phase_of)} if rules.auto else set()
        )
        if gone:
            mirror.store.prune(row.run, sorted(seq for seq in gone if seq is not None))
        return [version for version in versions if version.seq not in gone]

    def _named(self, mirror: Mirror, row: RunRow, version: Version) -> str:
        """`CP-{phase}-{YYYYMMDD}-{4 hex, longer where taken}`, from now on another name of the checkpoint."""
        phase = (version.step or "").partition("/")[0]
        phase = phase if phase in PHASES else current_phase(mirror.state(row, version.seq))[0]
        mark = version.checkpoint or sha256(f"{row.run_id}:{version.seq}".encode()).hexdigest()

        def work(tx: Tx) -> str:
            there = tx.version(row.run, version.seq)
            own = own_alias(self, there)
            if own is not None:
                return own
            length = 4
            while tx.aliased(name := f"CP-{phase}-{iso(version.at)[:10].replace('-', '')}-{mark[:length]}"):
                length += 1
            tx.add_alias(row.run, version.seq, name)
            return name

        return mirror.store.write(work)

    @staticmethod
    def _drop_pruned(mirror: Mirror, known: dict[str, str], there: set[str]) -> None:
        """Files of checkpoints that were pruned go too."""
        for alias in [alias for alias in known if alias not in there]:
            path = known.pop(alias)
            mirror.memory.forget(path)
            mirror.remove(path)

    def shown(self, mirror: Mirror, row: RunRow) -> State | None:
        """Its newest checkpoint; what was only committed is in no file."""
        newest = mirror.store.read(lambda view: view.versions(row.run, sealed=True, limit=1))
        if not newest or not load(mirror.project).enabled:
            return None
        return mirror.state(row, newest[0].seq)

    def places(self, mirror: Mirror, row: RunRow, state: State) -> dict[str, str | None]:
        config = load(mirror.project)
        if state.alias is None:  # it has no name yet
            return {}
        return {f"{self._folder(config, row)}/{self._file(config, state.alias)}": None}

    def leave(self, mirror: Mirror, path: str, run_id: str) -> None:
        """Older checkpoints stay where they are."""
        mirror.memory.forget(path)

    def after(self, mirror: Mirror, row: RunRow, state: State) -> None:
        config = load(mirror.project)
        folder = self._folder(config, row)
        entries = self._entries(mirror, row, state)
        index = {
            "issue_number": int(row.issue) if str(row.issue).isdigit() else row.issue,
            "checkpoints": entries,
            "latest": state.alias,
            "total_checkpoints": len(entries),
        }
        mirror.put_text(f"{folder}/{INDEX}", yaml_text.dump(index))
        mirror.link(f"{folder}/{LATEST}", self._file(config, str(state.alias)))

    def _entries(self, mirror: Mirror, row: RunRow, state: State) -> list[dict[str, object]]:
        """Every checkpoint of the issue once, as it was made: an edit of its file makes no other one of it."""
        known = mirror.memory.runs.setdefault(row.run_id, {}).setdefault("stopped", [])
        stops = [] if can_resume(state) else [state.alias]
        known[:] = [alias for alias in known if alias != state.alias] + stops

        def look(view: View) -> list[tuple[str, Version]]:
            rows = view.list_runs({"workflow": row.workflow, "issue": row.issue}) if row.issue else [row]
            rows = sorted(rows, key=lambda each: each.run)
            return [(each.run_id, v) for each in rows for v in view.versions(each.run, sealed=True)[::-1]]

        out: dict[object, dict[str, object]] = {}
        for run_id, version in mirror.store.read(look):
            alias = own_alias(self, version)
            stopped = mirror.memory.runs.get(run_id, {}).get("stopped", [])
            if alias is not None and alias not in out:
                out[alias] = {
                    "checkpoint_id": alias,
                    "created_at": iso(version.at),
                    "trigger": version.trigger,
                    "phase": self.phase_of(version),
                    "can_resume": alias not in stopped,
                }
        return list(out.values())

    def config(self, project: str) -> Config:
        return load(project)

    def doubts(self, config: Config) -> str | None:
        return f"{FILE}: nobody reads {', '.join(config.unknown)}." if config.unknown else None

    def sealed(self, tx: Tx, run: int, changes: ChangeSet, seal: Seal | None, config: Config) -> Seal | None:
        """Phases, batches, agents and conflicts are what a checkpoint is made for; the rest is committed."""
        _follow_label(tx, run, changes)
        trigger = trigger_of(tx, run, changes, seal)
        if trigger is None or not config.seals(trigger):
            return None
        return Seal(trigger) if seal is None else Seal(trigger, seal.step, seal.note, seal.aliases)

    def set_up(self, project: str) -> list[str]:
        files = ProjectFiles(project)
        if files.stat(FILE) is not None:
            return []
        files.create(FILE, yaml_text.dump(EXAMPLE).encode())
        return [FILE]

    def ignored(self, project: str) -> list[str]:
        return [".claude/crunch/*/checkpoints/"]


def _follow_label(tx: Tx, run: int, changes: ChangeSet) -> None:
    """The issue's label says in which phase the work is: what lies before is not to be done, what comes is."""
    change, known = changes.changes.get(("context", STATE_LABEL)), tx.record(run, "context", STATE_LABEL)
    if change is None or change.kind != PUT or (known is not None and known.stored == change.stored):
        return  # the work may be further than a label that nobody changed
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


def trigger_of(tx: Tx, run: int, changes: ChangeSet, seal: Seal | None) -> str | None:
    """Why the protocol would make a checkpoint here; ``None``: it would not."""
    if seal is None:
        return _conflict(changes) or _batch_start(tx, run, changes)
    if seal.trigger != "step_complete" or seal.step is None:
        return seal.trigger
    parts = seal.step.split("/")
    if parts[0] not in PHASES:
        return seal.trigger
    if len(parts) == 1:
        return "phase_transition"
    if not parts[1].startswith("batch-"):
        return "agent_complete"
    if len(parts) == 2 or _last_of(tx, run, f"{parts[0]}/{parts[1]}", seal.step):
        return "batch_complete"
    return None


def _last_of(tx: Tx, run: int, batch: str, step: str) -> bool:
    """Whether every other step of a batch is done."""
    others = (record.key for record in tx.records(run, "step", f"{batch}/", f"{batch}0"))
    found = (tx.row(run, "step", key) for key in others if key != step)
    return all(about is None or about[1] in DONE for about in found)


def _batch_start(tx: Tx, run: int, changes: ChangeSet) -> str | None:
    """Before each batch: its first step begins."""
    for (collection, key), change in changes.changes.items():
        parts = key.split("/")
        if collection == "step" and parts[0] in PHASES and len(parts) > 2 and parts[1].startswith("batch-"):
            begins = change.step is not None and change.step[0] == "running"
            if begins and _untouched(tx, run, f"{parts[0]}/{parts[1]}"):
                return "batch_start"
    return None


def _untouched(tx: Tx, run: int, batch: str) -> bool:
    there = (record.key for record in tx.records(run, "step", f"{batch}/", f"{batch}0"))
    found = (tx.row(run, "step", key) for key in there)
    return all(about is None or about[1] == "pending" for about in found)


def _conflict(changes: ChangeSet) -> str | None:
    for collection, key in changes.changes:
        if collection == "conflict":
            stored = changes.changes[collection, key].stored
            return "conflict_resolved" if b"resolved" in stored else "conflict_start"
    return None
