"""Who calls: the session, the run, the step and the secrets that a process works with, as its environment says.

A step's process, an agent's shell and a program started by either are told by variables; every face reads them here, so
that all of them mean the same.
"""

from __future__ import annotations

import os

from leftoff.errors import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from leftoff.host import Process
    from leftoff.store.base import View

    #: of what is listed (name, what it is, its status, when it was touched), the name that a person picks, if any
    Pick = Callable[[str, Sequence[tuple[str, str, str, int]]], str | None]


class Caller:
    """Who calls an operation: what its environment says, and what it named itself.

    ``named``: the run that it names. ``branch``: the branch of runs that it means. ``session``: the agent's session,
    where that is known without a variable. ``agent``: the agent's process that it belongs to, where the session is
    known by that. ``person``: whether one may be behind it; a model with tools is none. ``pick``: how a person at a
    terminal chooses one of several. ``via``: the face, where what is decided is
    written down with it. Variables are read when they are asked for; an empty one counts as unset.
    """

    __slots__ = ("_agent", "_branch", "_session", "named", "person", "pick", "via")

    def __init__(
        self,
        *,
        named: str | None = None,
        branch: str | None = None,
        session: str | None = None,
        agent: Process | None = None,
        person: bool = True,
    ) -> None:
        self.named = named if named and named != "@" else None
        self.pick: Pick | None = None
        self.via = "shell"
        self._agent = agent
        self.person = person
        self._branch = branch
        self._session = session

    def variable(self, name: str) -> str | None:
        value = os.environ.get(name) or None
        if value is not None and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise Usage(
                    f"The variable {name} is not UTF-8.", hint=f"Set {name} again, or unset it."
                ) from None
        return value

    def has(self, name: str) -> bool:
        """Whether a variable has a value."""
        return bool(os.environ.get(name))

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """All variables, as for a process that it starts."""
        return {**os.environ, **(more or {})}

    @property
    def session(self) -> str | None:
        """The agent's session that this belongs to: as our hooks said, or as Codex tells its shell."""
        return self._session or self.variable("LEFTOFF_SESSION") or self.variable("CODEX_THREAD_ID")

    @property
    def agent(self) -> Process | None:
        """The agent's process that this belongs to. Gemini CLI tells its shell that it is one, but no session."""
        if self._agent is None and self.has("GEMINI_CLI") and not self.session:
            from leftoff.host import agent_above

            self._agent = agent_above("gemini")
        return self._agent

    def session_in(self, view: View) -> str | None:
        """The session: as the environment says, or that which the agent's process was last seen with, or began with."""
        if self.session or self.agent is None:
            return self.session
        leases = [lease for _, lease in view.leases() if lease.kind == "session"]
        driven = [lease.session for lease in leases if lease.process == self.agent]
        return (driven[-1] if driven else None) or self.first_session

    @property
    def first_session(self) -> str | None:
        """The session that an agent's program had when it started a server of ours; it may have another by now."""
        return self.variable("CLAUDE_CODE_SESSION_ID") if self.agent is not None else None

    @property
    def run(self) -> str | None:
        """The run that was exported to this process."""
        return self.variable("LEFTOFF_RUN")

    @property
    def step(self) -> str | None:
        """The step that this process is part of."""
        return (self.variable("LEFTOFF_STEP") or "").strip("/") or None

    @property
    def attempt(self) -> str | None:
        """The token of the attempt that this process is part of."""
        return self.variable("LEFTOFF_ATTEMPT")

    @property
    def persisted(self) -> list[str] | None:
        """The variables that a step's process may set, where its definition names them."""
        said = self.variable("LEFTOFF_PERSIST")
        return [name for name in said.split("\n") if name] if said is not None else None

    @property
    def project(self) -> str | None:
        """The folder of the project that this process works in."""
        return self.variable("LEFTOFF_PROJECT")

    @property
    def store(self) -> str | None:
        """Where its store is."""
        return self.variable("LEFTOFF_STORE")

    def pass_on_store(self, location: str) -> None:
        """What processes are told that this one starts: the same store, without the password that we were given."""
        os.environ["LEFTOFF_STORE"] = location

    @property
    def arguments(self) -> str | None:
        """What a step's process is to do, as JSON; or @ and the file that says so."""
        return self.variable("LEFTOFF_ARGS")

    @property
    def result_file(self) -> str | None:
        """Where a step's process leaves its result."""
        return self.variable("LEFTOFF_RESULT")

    @property
    def variables_file(self) -> str | None:
        """Where a step's process leaves variables of its run."""
        return self.variable("LEFTOFF_VARS")

    @property
    def branch(self) -> str:
        """The branch of runs that is meant where none is named."""
        return self._branch or self.variable("LEFTOFF_BRANCH") or "main"

    def take_web_token(self) -> str | None:
        """The token of the page, where it must be the same at each start; no process that is started later has it."""
        found = self.variable("LEFTOFF_WEB_TOKEN")
        os.environ.pop("LEFTOFF_WEB_TOKEN", None)
        return found

    @property
    def lock_timeout(self) -> float | None:
        """Seconds to wait for other processes that write."""
        said = self.variable("LEFTOFF_LOCK_TIMEOUT")
        if said is None:
            return None
        try:
            seconds = float(said)
        except ValueError:
            seconds = -1
        if not seconds >= 0:
            raise Usage(
                f"LEFTOFF_LOCK_TIMEOUT is {said!r}.",
                hint="It is a number of seconds: LEFTOFF_LOCK_TIMEOUT=30",
            )
        return seconds

    @property
    def user_folder(self) -> str:
        """Where leftoff keeps what a user, and no project, has said."""
        state = self.variable("XDG_STATE_HOME") or ""
        if not os.path.isabs(state):
            # The home of whoever has none is no path: it must not become one of the current folder's.
            state = os.path.join(os.sep, os.path.expanduser("~"), ".local", "state")
        return os.path.join(state, "leftoff")

    def trusts(self, project: str) -> bool:
        """Whether whoever calls said that all of a project is trusted, this time: LEFTOFF_TRUST is 1, or its folder."""
        said = self.variable("LEFTOFF_TRUST")
        return said == "1" or (said is not None and os.path.realpath(said) == os.path.realpath(project))

    def trust(self, project: str) -> None:
        """From now on a project is trusted, by this process and those that it starts."""
        if not self.trusts(project):
            os.environ["LEFTOFF_TRUST"] = os.path.abspath(project)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that the workflow around this process calls secret."""
        names = os.environ.get("LEFTOFF_SECRETS")
        if not names:
            return ()
        values = (os.environ.get(name, "") for name in names.split(","))
        return tuple(value for value in values if value)


#: that of this process
CALLER = Caller()
