"""Who calls: the session, the run, the step and the secrets that a process works with, as its environment says.

A step's process, an agent's shell and a program started by either get them as variables. Every face reads them here,
so that all mean the same.
"""

from __future__ import annotations

import os

from leftoff.errors import Usage
from leftoff.hints import Callable, Mapping, Sequence
from leftoff.host import agent_above

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.host import Process
    from leftoff.store.base import View

    #: of what is listed (name, what it is, its status, when it was touched), the name that a person picks, if any
    Pick = Callable[[str, Sequence[tuple[str, str, str, int]]], str | None]


class _Variable:
    """A variable of the environment, read when it is asked for. An empty one counts as unset."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, caller: Caller, kind: type) -> str | None:
        return caller.variable(self._name)


class Caller:
    """Who calls an operation: what its environment says, and what it named itself.

    ``named``: the run that it names. ``branch``: the branch of runs that it means. ``session``: the agent's session,
    if that is known without a variable. ``agent``: the agent's process, if the session is known by that. ``person``:
    whether a person may be behind it; a model with tools is none. ``pick``: how a person at a terminal chooses one of
    several. ``via``: the face, which is recorded with decisions.
    """

    __slots__ = ("_agent", "_branch", "_session", "named", "person", "pick", "via")

    project = _Variable("LEFTOFF_PROJECT")  # the folder of the project that this process works in
    store = _Variable("LEFTOFF_STORE")  # where its store is
    run = _Variable("LEFTOFF_RUN")  # the run that was exported to this process
    attempt = _Variable("LEFTOFF_ATTEMPT")  # the token of the attempt that this process is part of
    arguments = _Variable("LEFTOFF_ARGS")  # what a step's process is to do: JSON, or @ and a file
    result_file = _Variable("LEFTOFF_RESULT")  # where a step's process leaves its result
    variables_file = _Variable("LEFTOFF_VARS")  # where a step's process leaves variables of its run

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
        """Return whether a variable has a value."""
        return bool(os.environ.get(name))

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return all variables, for a process that it starts."""
        return {**os.environ, **(more or {})}

    @property
    def session(self) -> str | None:
        """The agent's session that this belongs to: as our hooks said, or as Codex says in its shell."""
        return self._session or self.variable("LEFTOFF_SESSION") or self.variable("CODEX_THREAD_ID")

    @property
    def agent(self) -> Process | None:
        """The agent's process that this belongs to. Gemini CLI tells its shell that it is one, but no session."""
        if self._agent is None and self.has("GEMINI_CLI") and not self.session:
            self._agent = agent_above("gemini")
        return self._agent

    def session_in(self, view: View) -> str | None:
        """Return the session: as the environment says, or that which the agent's process was last seen with."""
        if self.session or self.agent is None:
            return self.session
        leases = [lease for _, lease in view.leases() if lease.kind == "session"]
        driven = [lease.session for lease in leases if lease.process == self.agent]
        return (driven[-1] if driven else None) or self.first_session

    @property
    def first_session(self) -> str | None:
        """The session that an agent's program had when it started a server of ours. It may have another by now."""
        return self.variable("CLAUDE_CODE_SESSION_ID") if self.agent is not None else None

    @property
    def step(self) -> str | None:
        """The step that this process is part of."""
        return (self.variable("LEFTOFF_STEP") or "").strip("/") or None

    @property
    def persisted(self) -> list[str] | None:
        """The variables that a step's process may set, if its definition names them."""
        said = self.variable("LEFTOFF_PERSIST")
        return [name for name in said.split("\n") if name] if said is not None else None

    def pass_on_store(self, location: str) -> None:
        """Tell processes that this one starts the same store, without the password that we were given."""
        os.environ["LEFTOFF_STORE"] = location

    @property
    def branch(self) -> str:
        """The branch of runs that is meant if none is named."""
        return self._branch or self.variable("LEFTOFF_BRANCH") or "main"

    def take_web_token(self) -> str | None:
        """Return the page's token, if it must be the same at each start, and hide it from processes started later."""
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
        """The folder for what a user, rather than a project, has said."""
        state = self.variable("XDG_STATE_HOME") or ""
        if not os.path.isabs(state):
            # Without a home, `~` stays as it is: it must not become a folder of the current one.
            state = os.path.join(os.sep, os.path.expanduser("~"), ".local", "state")
        return os.path.join(state, "leftoff")

    def trusts(self, project: str) -> bool:
        """Return whether the caller trusts all of a project this time: LEFTOFF_TRUST is 1, or its folder."""
        said = self.variable("LEFTOFF_TRUST")
        return said == "1" or (said is not None and os.path.realpath(said) == os.path.realpath(project))

    def trust(self, project: str) -> None:
        """Trust a project from now on, in this process and those that it starts."""
        if not self.trusts(project):
            os.environ["LEFTOFF_TRUST"] = os.path.abspath(project)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that the workflow around this process calls secret."""
        names = (os.environ.get("LEFTOFF_SECRETS") or "").split(",")
        values = (os.environ.get(name, "") for name in names)
        return tuple(value for value in values if value)


#: that of this process
CALLER = Caller()
