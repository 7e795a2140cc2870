"""The tools, resources and prompts, with the descriptions that a model reads which has never seen leftoff.

Their arguments are named as the command's options and its JSON keys are. Every one that works on a run takes
``run_id``; left out, it is the run of this session, or the only unfinished one.
"""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from typing import Any

from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp.types import INVALID_PARAMS
from pydantic import ValidationError

from leftoff._version import __version__
from leftoff.agents.server.work import NO_RESULT, Work
from leftoff.errors import Ambiguous, LeftoffError, Usage

INSTRUCTIONS = (
    "leftoff keeps the progress of long work, so that it can be resumed after a crash, a compaction or in a new "
    "session. A run has steps, variables, notes and checkpoints. Begin with list_runs to see whether something is "
    "unfinished, and resume_run to go on with it; else start_run with the steps you plan. Report each step with "
    "report_step when you begin it (status running) and when it is completed or failed. Steps that are completed need "
    "not be done again."
)

Answer = dict[str, object]


class Tools:
    """The tools of one project."""

    def __init__(self, project: str, store: str | None) -> None:
        self.project = project
        self.store = store

    def _call(self, name: str, *args: Any, **more: Any) -> Any:
        """A store per call: tools run on threads, and the store may change between two of them."""
        work = Work(self.project, self.store)
        try:
            return getattr(work, name)(*args, **more)
        except LeftoffError as error:
            raise ToolError(_told(error)) from None
        finally:
            work.desk.close()

    def start_run(
        self,
        workflow: str,
        title: str | None = None,
        steps: list[str | dict[str, Any]] | None = None,
        total: int | None = None,
        branch: str | None = None,
        variables: dict[str, Any] | None = None,
        run_id: str | None = None,
        issue: str | int | None = None,
        task: str | None = None,
        agent: str | None = None,
        resume: bool = False,
    ) -> Answer:
        """Start a run: one piece of long work whose progress is kept. Returns the run, with its run_id.

        workflow: a short name for this kind of work, like "convert-pdfs". title: what this run is about.
        steps: the planned steps in order, each a name like "collect" or "convert/page-1", or an object with "id",
        "title" and "instructions". total: how many steps there will be, if their names are not known yet.
        resume: go on with the unfinished run of that workflow if there is one, instead of a second one.
        """
        number = str(issue).lstrip("#") if issue not in (None, "") else None
        facts = {"issue": number, "task": task, "agent": agent, "total": _counted(total)}
        known = {key: value for key, value in facts.items() if value is not None}
        named: dict[str, Any] = {"workflow": workflow, "title": title, "branch": branch, "run_id": run_id}
        opening = {**named, "facts": known, "steps": steps or [], "variables": variables}
        found: Answer = self._call("start", opening, resume)
        return found

    def report_step(
        self,
        step: str,
        status: str,
        run_id: str | None = None,
        title: str | None = None,
        result: Any = None,
        error: str | None = None,
        type: str | None = None,
        resume_with: str | None = None,
        outputs: list[str] | None = None,
        note: str | None = None,
        total: int | None = None,
    ) -> Answer:
        """Report what happened to a step. A step that was not declared is added.

        status: running (you begin it), completed, failed, blocked (somebody must do something first) or skipped.
        completed, failed, blocked and skipped also save a checkpoint. result: what came of it, any JSON.
        outputs: files that it wrote, inside the project; a copy of each is kept. error: why it failed or is blocked.
        resume_with: what whoever goes on must do first. Returns the run_id and the next step.
        """
        facts = {"title": title, "error": error, "kind": type, "resume_with": resume_with, "note": note}
        given = NO_RESULT if result is None else result
        found: Answer = self._call(
            "step", run_id, step, status, outputs=outputs, result=given, total=_counted(total), **facts
        )
        return found

    def next_step(self, run_id: str | None = None, start: bool = False) -> Answer:
        """The step to do next, with its instructions, and why it is the one; step is null when none is left.

        start: mark it as running in the same breath, so that no other agent gets the same one.
        """
        found: Answer = self._call("next", run_id, start)
        return found

    def set_variables(self, variables: dict[str, Any], run_id: str | None = None) -> Answer:
        """Keep values that later steps or sessions need, by name; any JSON. Secrets are not stored."""
        found: Answer = self._call("set", run_id, variables)
        return found

    def put_record(
        self, collection: str, key: str, value: Any, new: bool = False, run_id: str | None = None
    ) -> Answer:
        """Keep any record under a collection and a key.

        collection: message, conflict, knowledge, member, criterion, score, error, context, extra or another word of
        leftoff's. new: fail instead of overwriting one that exists.
        """
        found: Answer = self._call("put", run_id, collection, key, value, new)
        return found

    def save_checkpoint(
        self, trigger: str = "manual", note: str | None = None, run_id: str | None = None
    ) -> Answer:
        """Seal a checkpoint, to which a person can go back. Do it before something risky, and at a turning point.

        trigger: manual, phase_transition, batch_start, batch_complete, agent_start, agent_complete, conflict_start,
        conflict_resolved, approval, review, user_interrupt, session_end, step_complete, error or external.
        note: what to remember of it.
        """
        found: Answer = self._call("save", run_id, trigger, note)
        return found

    def list_runs(
        self,
        status: str | list[str] | None = None,
        workflow: str | None = None,
        branch: str | None = None,
        limit: int = 50,
    ) -> Answer:
        """The runs of this project, latest first. status: only those that are running, paused, blocked, failed
        (these four are unfinished), completed or abandoned; one of these words or a list of them."""
        words = [status] if isinstance(status, str) else status
        found: Answer = self._call("runs", words, workflow, branch, limit)
        return found

    def show_run(self, run_id: str | None = None) -> Answer:
        """Everything about a run: steps, variables, artifacts, files, notes. run_id may also name a checkpoint, like
        RUN@SEQ, RUN~1 (one checkpoint back) or the start of a checkpoint id."""
        found: Answer = self._call("show", run_id)
        return found

    def diff_checkpoints(self, from_ref: str, to_ref: str) -> Answer:
        """What differs between two versions: variables, steps, artifacts and files that were added, removed, changed.
        Each is named by a checkpoint id, RUN (its newest version), RUN@SEQ or RUN~N (N checkpoints back)."""
        found: Answer = self._call("diff", from_ref, to_ref)
        return found

    def verify_resume(self, run_id: str | None = None) -> Answer:
        """Whether a run can be resumed, without changing anything: the verdict (resume, warn, ask, refuse), what was
        found (files that changed or are gone, another git commit, somebody else at work), and for each step whether
        it is to be run or skipped, and why."""
        found: Answer = self._call("verify", run_id)
        return found

    def resume_run(self, run_id: str | None = None, accept: list[str] | None = None) -> Answer:
        """Go on with an unfinished run: it is marked running, and brief says what is done, what is next, what changed.
        Do not do completed steps again. The world is checked first: where a person must decide, this fails and says
        about what; ask your user. accept: the codes of the findings that your user agreed to."""
        found: Answer = self._call("resume", run_id, accept)
        return found

    def add_note(
        self, text: str, step: str | None = None, resume: bool = False, run_id: str | None = None
    ) -> Answer:
        """Leave a note for whoever goes on. resume: it must be read first."""
        found: Answer = self._call("note", run_id, text, step, resume)
        return found

    def request_approval(
        self, step: str, ask: str, options: list[str] | None = None, run_id: str | None = None
    ) -> Answer:
        """Ask a person for a decision: the step waits until somebody decides with the command in how, which you cannot
        do yourself. options: what can be chosen (default: approve, reject). Then go on with something else."""
        found: Answer = self._call("ask", run_id, step, ask, options)
        return found

    def finish_run(
        self, status: str = "completed", summary: str | None = None, run_id: str | None = None
    ) -> Answer:
        """End a run: completed, failed or abandoned. left names steps that are not done."""
        found: Answer = self._call("finish", run_id, status, summary)
        return found

    # -- resources and prompts

    def run_resource(self, run_id: str) -> Answer:
        """A run, whole."""
        found: Answer = self._read("show", run_id)
        return found

    def _read(self, name: str, ref: str) -> Any:
        try:
            return self._call(name, ref)
        except ToolError as error:
            raise ResourceNotFoundError(str(error)) from None

    def brief_resource(self, run_id: str) -> str:
        """What one must know to go on with a run."""
        found: str = self._read("brief", run_id)
        return found

    def checkpoint_resource(self, checkpoint_id: str) -> Answer:
        """A checkpoint, and the run as it was then."""
        found: Answer = self._read("checkpoint", checkpoint_id)
        return found

    def _briefed(self, run_id: str) -> str:
        try:
            told: str = self._call("brief", run_id or None)
        except ToolError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from None
        return told

    def resume_prompt(self, run_id: str = "") -> str:
        """Go on with unfinished work."""
        told = self._briefed(run_id)
        return f"Go on with this work. What is done need not be done again; report each step.\n\n{told}"

    def handover_prompt(self, run_id: str = "") -> str:
        """Hand the work over to another agent."""
        told = self._briefed(run_id)
        return (
            "Another agent worked on this and hands it over to you. Check that what it says is so before you build on "
            f"it; what is done need not be done again.\n\n{told}"
        )


def _counted(total: int | None) -> int | None:
    if total is not None and total < 0:
        raise ToolError(f"total cannot be {total}. It is how many steps there will be, or left out.")
    return total


# What the hints of commands say, in the words of one that has tools.
_TOOL_WORDS = {
    "`leftoff start WORKFLOW` starts one": "start_run starts one",
    "`leftoff start` makes one": "start_run makes one",
    "`leftoff ls --all` lists every run": "list_runs lists them",
    "(`start --resume`, leftoff.resume)": "(start_run with resume: true)",
    "Use `leftoff start`, `pause` and `finish`": "Use start_run and finish_run",
    "`leftoff set K:=JSON`": "set_variables",
    "--run RUN, or set LEFTOFF_RUN": "pass its run_id",
}


def _told(error: LeftoffError) -> str:
    """What is wrong, and what to do about it, as a model reads it that has tools and no command line."""
    if isinstance(error, Ambiguous):
        return f"{error.message} Say which one is meant: pass its run_id."
    hint = error.hint if error.hint != Usage.default_hint else "Nothing was changed."
    for words, instead in _TOOL_WORDS.items():
        hint = hint.replace(words, instead)
    return f"{error.message} {hint}".strip()


class Server(MCPServer[Any]):
    """The SDK's server, which says of a wrong argument what is wrong with it, and takes none that it does not know."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        if name not in TOOLS:
            raise ToolError(f"There is no tool {name!r}. Tools: {', '.join(TOOLS)}.")
        known = [one for one in inspect.signature(getattr(Tools, name)).parameters if one != "self"]
        unknown = [one for one in arguments if one not in known]
        if unknown:
            near = get_close_matches(unknown[0], known, 1)
            meant = f" Did you mean {near[0]}?" if near else ""
            raise ToolError(
                f"{name} has no argument {unknown[0]!r}.{meant} Arguments: {', '.join(known)}. Nothing was changed."
            )
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(_mistaken(name, error.__cause__)) from None
            raise


def _mistaken(name: str, error: ValidationError) -> str:
    """What is wrong with the arguments of a call, one sentence each."""
    said: dict[str, str] = {}
    for one in error.errors(include_url=False):
        argument = str(one["loc"][0]) if one["loc"] else "it"
        if one["type"] == "missing":
            said[argument] = f"{name} needs the argument {argument}."
        else:
            given = repr(one.get("input"))
            shown = given if len(given) <= 80 else f"{given[:80]}…"
            want = one["msg"].removeprefix("Input should be ")
            said.setdefault(argument, f"{argument} should be {want}, and is {shown}.")
    return f"{' '.join(said.values())} Nothing was changed."


TOOLS = (
    "start_run report_step next_step set_variables put_record save_checkpoint list_runs show_run diff_checkpoints "
    "verify_resume resume_run add_note request_approval finish_run"
).split()


def make_server(project: str, store: str | None) -> MCPServer[Any]:
    """The server of one project."""
    server = Server("leftoff", instructions=INSTRUCTIONS, version=__version__, log_level="CRITICAL")
    tools = Tools(project, store)
    for name in TOOLS:
        server.tool(name=name)(getattr(tools, name))
    server.resource("run://{run_id}", name="run", mime_type="application/json")(tools.run_resource)
    server.resource("run://{run_id}/brief", name="brief", mime_type="text/plain")(tools.brief_resource)
    server.resource("checkpoint://{checkpoint_id}", name="checkpoint", mime_type="application/json")(
        tools.checkpoint_resource
    )
    server.prompt(name="resume")(tools.resume_prompt)
    server.prompt(name="handover")(tools.handover_prompt)
    return server
