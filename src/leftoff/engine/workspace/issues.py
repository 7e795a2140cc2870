"""The issue that a run works on, as its tracker has it: fetched by a command or from a file, remembered as a snapshot.

A tracker is somebody else's: whatever it answers may be missing, late or of another shape, and then nothing is known.
"""

from __future__ import annotations

import os

from leftoff.clock import iso
from leftoff.engine.config.caller import CALLER
from leftoff.engine.config.trust import outside
from leftoff.errors import Invalid
from leftoff.files import open_plain
from leftoff.model.words import ISSUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from leftoff.engine.config.settings import Settings
    from leftoff.model.changes import ChangeSet

KEY = ISSUE
STATE_LABEL = "current_state_label"  # of `context`: the workflow's state, as the issue's labels say it
COMMAND = "gh issue view {issue} --json title,body,labels,assignees,state"
SECONDS = 15.0
_KEYS = ("command", "file", "timeout", "update")
_STATE = "state:"
_MOST = 1 << 24  # characters of a file


class Offline(Exception):
    """The tracker gave no answer; why."""


class Issues:
    """`[issues]` of leftoff.toml: where issues are to be found."""

    def __init__(self, section: dict[str, Any]) -> None:
        for key, value in section.items():
            if key not in _KEYS:
                raise Invalid(f"[issues] has no {key!r}.", path=key, hint=f"It has: {', '.join(_KEYS)}.")
            wanted: Any = (int, float) if key == "timeout" else str
            if not isinstance(value, wanted) or isinstance(value, bool):
                raise Invalid(f"[issues] {key} is wrong: {value!r}.", path=key, hint=f'command = "{COMMAND}"')
        self.file: str | None = section.get("file")
        self.command: str | None = section.get("command", None if self.file else self._default())
        self.update: str | None = section.get("update")
        self.timeout = float(section.get("timeout", SECONDS))

    @staticmethod
    def _default() -> str | None:
        import shutil

        return COMMAND if shutil.which("gh") else None

    @property
    def known(self) -> bool:
        """Whether there is anywhere to look."""
        return bool(self.command or self.file)

    def fetch(self, project: str, issue: str) -> dict[str, Any]:
        """The issue as it is now; `Offline` where that cannot be told."""
        import json

        text = self._read(project, issue) if self.file else self._run(project, issue)
        try:
            found = json.loads(text)
        except ValueError:
            raise Offline("the answer is not JSON") from None
        if not isinstance(found, dict):
            raise Offline("the answer is not a JSON object")
        return found

    def _read(self, project: str, issue: str) -> str:
        named = str(self.file)
        path = os.path.join(project, filled := named.replace("{issue}", issue))
        try:
            if outside(project, filled) and not outside(
                project, named
            ):  # by the issue, or a link of its name
                raise Offline(f"{path} leads outside of the project")
            with open(open_plain(path), encoding="utf-8") as file:
                return file.read(_MOST)
        except (OSError, ValueError) as error:
            raise Offline(f"{path} cannot be read: {error}") from None

    def _run(self, project: str, issue: str) -> str:
        return self._command(project, str(self.command), {"issue": issue})

    def set_labels(self, project: str, issue: str, add: Sequence[str], remove: Sequence[str]) -> None:
        """Change the issue's labels by the command `update`; `Offline` where that failed."""
        words = {"issue": issue, "add": ",".join(add), "remove": ",".join(remove)}
        self._command(project, str(self.update), words)

    def _command(self, project: str, command: str, words: dict[str, str]) -> str:
        """What a command prints in which `{issue}` and the like stand for words."""
        import subprocess

        command = _filled(command, words)
        env = CALLER.environment({"LEFTOFF_ISSUE": words["issue"]})
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                cwd=project,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self.timeout,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:  # a NUL is no word
            raise Offline(f"the command failed: {error}") from None
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise Offline(
                f"the command ended with {done.returncode}" + (f": {said[-1][:200]}" if said else "")
            )
        return done.stdout.decode(errors="replace")


def _filled(command: str, words: dict[str, str]) -> str:
    """A command with each `{NAME}` replaced by its word; `Offline` where that would be more than a word to the shell,
    or to the command. Issues and labels may come from anywhere."""
    import re
    from shlex import quote

    done, *rest = re.split(f"{{({'|'.join(words)})}}", command)
    for name, behind in zip(rest[::2], rest[1::2], strict=True):
        word, outside = words[name], _is_outside(done)
        same = not word or quote(word) == word  # inside of quotes
        if not (outside or same) or not _can_be_told(command, name, word):
            raise Offline(f"{word!r} cannot be told to the command as {{{name}}}")
        done += (quote(word) if outside else word) + behind
    return done


def _can_be_told(command: str, name: str, word: str) -> bool:
    """What begins with a dash would be an option. And `gh` is sent to no machine but its own: whichever an address
    names would get the token that its user has for another."""
    if command.startswith("gh ") and name == "issue" and "/" in word:
        return word.startswith(f"https://{CALLER.variable('GH_HOST') or 'github.com'}/")
    return not word.startswith("-") and "\0" not in word


def _is_outside(before: str) -> bool:
    """Whether what follows a part of a command is in no quotes, as far as that is easily told."""
    import shlex

    try:
        shlex.split(before)
    except ValueError:  # they are not closed
        return False
    return "`" not in before and "$(" not in before and "<<" not in before


def snapshot(found: dict[str, Any], branch: str | None, at: int) -> dict[str, Any]:
    """What is remembered of an issue."""
    return {
        "title": str(found.get("title") or ""),
        "body": str(found.get("body") or ""),
        "labels": names(found.get("labels")),
        "assignees": names(found.get("assignees")),
        "state": str(found.get("state") or "open").lower(),
        "branch": branch,
        "taken_at": iso(at),
    }


def take(settings: Settings, project: str, issue: str | None, branch: str | None, at: int) -> dict[str, Any]:
    """The snapshot as `context` records; empty where there is no issue, nowhere to look, or no answer."""
    if not issue:
        return {}
    issues = settings.parsed("issues", Issues)
    if not issues.known:
        return {}
    try:
        taken = snapshot(issues.fetch(project, issue), branch, at)
    except Offline:
        return {}
    label = state_label(taken["labels"])
    return {KEY: taken, **({STATE_LABEL: label} if label else {})}


def set_state(settings: Settings, project: str, issue: str, wanted: str) -> str | None:
    """Give an issue the state label that the work has come to, where `[issues] update` says how; the label that it had.
    ``None``: it is so already, has no such label, or nobody said how. `Offline` where it was tried in vain."""
    issues = settings.parsed("issues", Issues)
    if not issues.known or issues.update is None:
        return None
    there = [label for label in names(issues.fetch(project, issue).get("labels")) if label.startswith(_STATE)]
    if not there or there == [wanted]:
        return None
    issues.set_labels(project, issue, [wanted], [label for label in there if label != wanted])
    return ", ".join(there)


def put(changes: ChangeSet, taken: dict[str, Any]) -> None:
    for key, value in taken.items():
        changes.put("context", key, value)


def names(things: Any) -> list[str]:
    """Labels and assignees, as trackers give them: texts, or objects with a name."""
    out = []
    for thing in things if isinstance(things, list) else ():
        if isinstance(thing, dict):
            thing = thing.get("name") or thing.get("login")
        if isinstance(thing, str):
            out.append(thing)
    return sorted(out)


def state_label(labels: list[str]) -> str | None:
    """The label that says where the work stands (``state:ready``)."""
    return next((label for label in labels if label.startswith(_STATE)), None)
