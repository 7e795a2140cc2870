"""The tools of the MCP server, called as the server calls them, without a client."""

from __future__ import annotations

from typing import Any

from tests.parity.playing import Face

try:
    from leftoff.agents.mcp_tools import Tools
except ImportError:  # as it was called before
    from leftoff.agents.server.tools import Tools  # type: ignore[no-redef, import-not-found, unused-ignore]

A_PERSON = "a person's to do, with the command"
STATUS = {"start": "running", "done": "completed", "fail": "failed", "block": "blocked", "skip": "skipped"}


class Mcp(Face):
    name = "mcp"
    lacks = {
        "artifact": "an agent names the outputs of its steps",
        "track": "hooks track what an agent edits",
        "beat": "every call of a tool is a sign of life",
        "approve": A_PERSON,
        "reject": A_PERSON,
        "unblock": A_PERSON,
        "pause": "a session's end pauses its run",
        "rollback": A_PERSON,
        "fork": A_PERSON,
        "resume --from_step": A_PERSON,
        "resume --yes": A_PERSON,
    }

    @property
    def tools(self) -> Tools:
        return Tools(str(self.folder), None)

    def start(self, workflow: str, **options: Any) -> None:
        name = None if options.get("resume") and self.started else self.run_id
        self.started = True
        self.tools.start_run(workflow, run_id=name, **options)

    def step(self, action: str, step: str, **options: Any) -> None:
        self.tools.report_step(step, STATUS[action], **options)

    def next(self, start: bool = False) -> Any:
        return self.tools.next_step(start=start)

    def set(self, variables: dict[str, Any]) -> None:
        self.tools.set_variables(variables)

    def put(self, collection: str, key: str, value: Any, new: bool = False) -> None:
        self.tools.put_record(collection, key, value, new=new)

    def note(self, text: str, **options: Any) -> None:
        self.tools.add_note(text, **options)

    def save(self, **options: Any) -> None:
        self.tools.save_checkpoint(**options)

    def request(self, step: str, ask: str, **options: Any) -> None:
        self.tools.request_approval(step, ask, **options)

    def finish(self, **options: Any) -> None:
        self.tools.finish_run(**options)

    def resume(self, **options: Any) -> None:
        self.tools.resume_run(self.run_id, **options)

    def verify(self) -> Any:
        return self.tools.verify_resume(self.run_id)

    def ls(self) -> Any:
        return self.tools.list_runs()["runs"]

    def diff(self) -> Any:
        return self.tools.diff_checkpoints(f"{self.run_id}~2", self.run_id)

    def brief(self) -> Any:
        return self.tools.brief_resource(self.run_id)

    def show(self) -> Any:
        return self.tools.show_run(self.run_id)
