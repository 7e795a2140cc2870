"""sitebuilder's files: a checkpoint per task, a message to the orchestrator, and the table in `STATUS.md`."""

from __future__ import annotations

import os
from glob import glob

from leftoff.dialects.draft import inline, one_line
from leftoff.dialects.protocol import Dialect
from leftoff.dialects.sitebuilder.status import updated
from leftoff.model.ids import slug

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.draft import State
    from leftoff.dialects.mirror.mirror import Mirror
    from leftoff.store.rows import RunRow

NESTED = "docs/agentic-orchestration"  # where the protocol's own project has all of this
ROOTS = (f"{NESTED}/progress", "progress")
MESSAGE = "@orchestrator: Task {task} progress: {percent}%"


class SitebuilderFiles(Dialect):
    shows_all = False
    beats = True

    def includes(self, row: RunRow) -> bool:
        """Work on a task: `start AGENT --task T060`."""
        return row.card.get("task") is not None

    def _root(self, project: str) -> str:
        for folder, root in ((ROOTS[0], ROOTS[0]), (f"{ROOTS[1]}/checkpoints", ROOTS[1]), (NESTED, ROOTS[0])):
            if os.path.isdir(os.path.join(project, folder)):
                return root
        return ROOTS[1]

    def present(self, project: str) -> list[str]:
        return sorted(path for root in ROOTS for path in glob(f"{root}/checkpoints/*.json", root_dir=project))

    def places(self, mirror: Mirror, row: RunRow, state: State) -> dict[str, str | None]:
        """`{agent}-{task}.json` is the newest run of a task, `-complete` the newest that is."""
        agent, task = self.task_of(state)
        done = state.status == "completed"
        for other in self._of_task(mirror, agent, task):
            if other.run > row.run and (other.status == "completed") == done:
                return {}
        name = slug(f"{agent}-{task}") + ("-complete" if done else "")
        folder = os.path.dirname(self.home(state, f"{self._root(mirror.project)}/checkpoints/{name}.json"))
        return {f"{folder}/{name}.json": None}

    def task_of(self, state: State) -> tuple[str, str]:
        """Who works on what."""
        agent = str(state.run("workflow", ""))
        return agent, str(state.run("task") or state.run_id.removeprefix(f"{agent}-"))

    @staticmethod
    def _of_task(mirror: Mirror, agent: str, task: str) -> list[RunRow]:
        rows = mirror.store.read(lambda view: view.list_runs({"workflow": agent}))
        return [row for row in rows if str(row.card.get("task")) == task]

    def after(self, mirror: Mirror, row: RunRow, state: State) -> None:
        document, places = self.encode(state), self.places(mirror, row, state)
        if not places:  # a later run of the same task is shown
            return
        root = os.path.dirname(os.path.dirname(next(iter(places))))
        self._message(mirror, root, document)
        mirror.memory.runs.setdefault(row.run_id, {})["row"] = {
            "agent": document["agent"],
            "task": document["task_id"],
            "percent": document["progress_percent"],
            "at": document["updated_at"],
            "status": document["status"],
        }
        self._table(mirror, root)

    @staticmethod
    def _message(mirror: Mirror, root: str, document: dict[str, Any]) -> None:
        """One line in the agent's outbox for each percentage; a crash may make us look for it again."""
        line = MESSAGE.format(task=inline(document["task_id"]), percent=document["progress_percent"])
        agent = one_line(document["agent"]).replace("/", "-")
        path = os.path.join(os.path.dirname(root), f"messages/outbox-{agent}.md")
        there = (mirror.memory.read(path) or b"").decode("utf-8", "replace")
        about = line.rpartition(" ")[0]
        own = [each for each in there.splitlines() if each.startswith(about)]
        if own and own[-1] == line:
            return
        mirror.append(path, ("" if there.endswith("\n") or not there else "\n") + line + "\n")

    def _table(self, mirror: Mirror, root: str) -> None:
        """Only the table under its title is ours; the rest of the page stays."""
        path = f"{root}/STATUS.md"
        there = (mirror.memory.read(path) or b"").decode("utf-8", "surrogateescape")
        known = [about["row"] for about in mirror.memory.runs.values() if "row" in about]
        mirror.put_bytes(path, updated(there, known, mirror.clock()).encode("utf-8", "surrogateescape"))

    def ignored(self, project: str) -> list[str]:
        return [f"{self._root(project)}/checkpoints/"]
