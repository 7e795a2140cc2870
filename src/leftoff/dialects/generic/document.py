"""The generic reader: a state file of no protocol, as far as it tells of steps, which are done, and which is current.

It only reads: such files are imported and never kept in step. It says how it understood a file, so that a person can
judge it; a file that tells of no steps is rejected. BMAD's `sprint-status.yaml` is known by its keys; anything else
must be asked for (`--dialect generic`).
"""

from __future__ import annotations

from leftoff.clock import iso
from leftoff.dialects.draft import DONE
from leftoff.dialects.generic.understand import SPRINT, WORDS, Understood, told, understand
from leftoff.dialects.loose_values import Rejected, run_words, shown, step_words
from leftoff.dialects.protocol import Dialect
from leftoff.model.ids import quote_part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.draft import Draft, State

_TIMES = (
    *"updated_at last_updated lastUpdated lastCheckpoint updated timestamp last_activity saved_at".split(),
    *"date created_at started_at generated".split(),
)
_IDS = "run_id workflow_id session_id sessionId checkpoint_id id project name workflow".split()
STEPS, STATUS = step_words({}), run_words({})


class Generic(Dialect):
    name = "generic"
    about = "any state file with steps, phases or tasks and their status; BMAD's sprint-status.yaml"
    example = (
        "session-state.json",
        {
            "steps": [{"name": "plan", "status": "done"}, {"name": "build", "status": "todo"}],
            "current_step": "build",
        },
    )

    def recognise(self, document: dict[str, Any], path: str) -> int:
        found = document.get(SPRINT)
        return (
            60 if isinstance(found, dict) and found and all(isinstance(v, str) for v in found.values()) else 0
        )

    def way(self, document: dict[str, Any]) -> str | None:
        found = understand(document)
        return f"{len(found.items)} steps from {found.where}" if found is not None else None

    def accepts(self, document: dict[str, Any], path: str) -> bool:
        return understand(document) is not None

    def foreign(self, path: str, keys: str) -> str:
        return f"{path} tells of no steps, phases or tasks, done, left or current; its keys are {keys}."

    def decode(self, draft: Draft, document: dict[str, Any]) -> None:
        found = understand(document)
        if found is None:
            raise Rejected(self.foreign(draft.source.path, ", ".join(map(shown, list(document)[:5]))))
        stem = draft.source.name.partition(".")[0]
        given = next(
            (document[key] for key in _IDS if isinstance(document.get(key), str) and document[key]), stem
        )
        draft.name(given if len(given) <= 60 else stem)
        draft.run("workflow", stem)
        draft.run("title", given)
        draft.run("branch", "main")
        time = next((key for key in _TIMES if document.get(key) is not None), None)
        draft.at = draft.time(document, time) if time is not None else None
        if draft.at is not None:
            draft.run("created_at", iso(draft.at))
        statuses = self._steps(draft, found)
        self._run_status(draft, document, statuses)
        draft.repairs.add(told(found, time))

    @staticmethod
    def _steps(draft: Draft, found: Understood) -> list[str]:
        out = []
        done = {*found.done}
        for number, (name, said) in enumerate(found.items):
            word = WORDS.get(said, said) if isinstance(said, str) else said
            status = "completed" if said is True else STEPS.read(word, "pending", draft.repairs, name)
            if name in done or str(number + 1) in done:
                status = "completed"
            elif status == "pending" and found.current in (name, number + 1, str(number + 1)):
                status = "running"
            if not draft.put("step", quote_part(name), {"status": status, "order": number}):
                draft.repairs.add(f"{found.where}: {shown(name)} is there twice, or cannot be a name.")
            out.append(status)
        return out

    @staticmethod
    def _run_status(draft: Draft, document: dict[str, Any], statuses: list[str]) -> None:
        if statuses and all(status in DONE for status in statuses):
            draft.run("status", "completed")
        else:
            said = document.get("status")
            ours = STATUS.read(said, "paused", draft.repairs, "status") if isinstance(said, str) else "paused"
            draft.run("status", "paused" if ours == "completed" else ours)

    def encode(self, state: State) -> dict[str, Any]:
        return {}  # it is never written: what a document says is kept as it is written


DIALECT = Generic()
