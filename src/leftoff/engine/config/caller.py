"""Who calls: what the environment says of the session, the run, the step and the secrets that a process works with.

A step's process, an agent's shell and a program started by either are told by variables; every face reads them here, so
that all of them mean the same.
"""

from __future__ import annotations

import os

from leftoff.errors import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Caller:
    """What one environment says; each variable is read when it is asked for. An empty one counts as unset."""

    __slots__ = ("_environ",)

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ

    def variable(self, name: str) -> str | None:
        value = self._environ.get(name) or None
        if value is not None and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise Usage(
                    f"The variable {name} is not UTF-8.", hint=f"Set {name} again, or unset it."
                ) from None
        return value

    @property
    def session(self) -> str | None:
        """The agent's session that this belongs to."""
        return self.variable("LEFTOFF_SESSION")

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
    def branch(self) -> str:
        """The branch of runs that is meant where none is named."""
        return self.variable("LEFTOFF_BRANCH") or "main"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that the workflow around this process calls secret."""
        names = self._environ.get("LEFTOFF_SECRETS")
        if not names:
            return ()
        values = (self._environ.get(name, "") for name in names.split(","))
        return tuple(value for value in values if value)


#: that of this process
CALLER = Caller()
