"""The page: what a person decides there, through its application; what only the shell reports, by the command."""

from __future__ import annotations

import json
from typing import Any

from tests.parity.by_command import Command
from tests.parity.playing import refused
from tests.web.client import Client


class Page(Command):
    name = "page"
    worth = frozenset("approve reject unblock resume rollback fork verify ls diff brief show".split())

    def asked(self, method: str, path: str, document: dict[str, Any] | None = None) -> Any:
        """The answer to a program with the token; or why it was refused."""
        client = Client(self.folder, signed_in=False)
        try:
            answer = client.api(method, f"/api/projects/{self.folder.name}/runs{path}", document)
        finally:
            client.close()
        found = json.loads(answer.body)
        return refused(found["error"]["code"]) if "error" in found else found

    def done(self, action: str, **fields: Any) -> Any:
        found = self.asked("POST", f"/{self.run_id}/{action}", fields)
        return found if "refused" in found else None

    def approve(self, step: str, **options: Any) -> Any:
        return self.done("approve", step=step, **options)

    def reject(self, step: str, **options: Any) -> Any:
        return self.done("reject", step=step, **options)

    def unblock(self) -> Any:
        return self.done("unblock")

    def resume(self, **options: Any) -> Any:
        return self.done("resume", **options)

    def rollback(self, ref: str) -> Any:
        return self.done("rollback", to=f"{self.run_id}{ref}", yes=True)

    def fork(self, branch: str, **options: Any) -> Any:
        out = self.done("fork", branch=branch, run_id="forked", **options)
        self.run_id = "forked"
        return out

    def verify(self) -> Any:
        return self.asked("GET", f"/{self.run_id}/verify")

    def ls(self) -> Any:
        return self.asked("GET", "")["runs"]

    def brief(self) -> Any:
        return self.asked("GET", f"/{self.run_id}/brief")["text"]

    def show(self) -> Any:
        return self.asked("GET", f"/{self.run_id}/show")
