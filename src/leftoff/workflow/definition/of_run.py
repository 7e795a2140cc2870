"""The definition of a run: as it was when the run was last driven, and as its file is now."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from leftoff.engine.redaction.credentials import MASK
from leftoff.errors import BadDefinition, CannotResume, LeftoffError
from leftoff.workflow.definition.parse import digest_of, load, parse

if TYPE_CHECKING:
    from collections.abc import Collection

    from leftoff.workflow.definition.model import Workflow


class Definitions:
    """``new``: as it is now, ``None`` where there is a ``problem`` with it. ``old``: as the run knows it.

    ``old`` is ``None`` where it is another than now and nobody knows what it was: a text with a secret in it is not
    stored, and one of another version of leftoff may not be understood.
    """

    def __init__(
        self,
        known: dict[str, Any],
        project: str,
        given: Collection[str],
        workflow: Workflow | None = None,
        *,
        strange: bool = False,
    ) -> None:
        """``given``: the variables that the run has, and those that it is about to get. ``strange``: the run came from
        elsewhere, and names a file outside of the project: that is none of its own."""
        self.path = str(known.get("path") or "")
        self.gone = ""  # the file, and how: the run's own copy is used
        self._is_strange = strange
        self.problem: LeftoffError | None = None
        self.old: Workflow | None = None
        self.new: Workflow | None = workflow
        self.is_named = workflow is not None  # whoever goes on named the file
        self._known = known
        try:
            self._check_text()
            self.new = workflow or self._read(project, given)
        except LeftoffError as error:
            self.problem = error
        if self.new is not None:
            self.old = self._earlier(self.new, given)

    @property
    def changed(self) -> bool:
        return self.new is not self.old

    def _check_text(self) -> None:
        """A text that is not the one of its digest was put there by somebody else than whoever drove the run; unless
        there is a hole in it, where a secret was not stored: then there is no copy."""
        text = self._known.get("text")
        if text is not None and digest_of(str(text)) != self._known.get("digest"):
            self._known = {**self._known, "text": None}
            if MASK in str(text):
                return
            self.new = None
            raise CannotResume(
                f"The run's own copy of {self.path} is not what its digest says.",
                hint="Nothing of it is executed. `leftoff run FILE` starts afresh; `leftoff fsck` checks the store.",
            )

    def _read(self, project: str, given: Collection[str]) -> Workflow:
        """As its file is now; the run's own copy where that is gone."""
        path = os.path.join(project, self.path)
        if not self._is_strange and os.path.isfile(path):
            return load(path, given=given)
        text = self._known.get("text")
        if not text:
            raise CannotResume(
                f"{self.path} is gone, and the run has no copy of it: there was a secret in it.",
                hint="Put the file back, or start afresh with another one.",
            )
        self.gone = "is outside of the project, and not looked at" if self._is_strange else "is gone"
        return parse(str(text), path, given=given)

    def _earlier(self, now: Workflow, given: Collection[str]) -> Workflow | None:
        if self._known.get("digest") == now.digest:
            return now
        try:
            return parse(str(self._known.get("text") or ""), now.path, given=given)
        except BadDefinition:
            return None
