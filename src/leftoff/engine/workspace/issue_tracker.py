"""The issue that a run works on: fetched by a command or from a file, and stored as a snapshot.

The answer of a tracker may be missing, late or of another shape. Then nothing is known of the issue.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from typing import Any

from leftoff.clock import iso
from leftoff.engine.config.caller import CALLER
from leftoff.engine.config.settings import Settings, outside
from leftoff.errors import Invalid
from leftoff.files import open_plain
from leftoff.model.changes import ChangeSet
from leftoff.model.words import ISSUE

STATE_LABEL = "current_state_label"  # a key of `context`: the workflow's state, as the issue's labels say it
COMMAND = "gh issue view {issue} --json title,body,labels,assignees,state"
SECONDS = 15.0
_KEYS = ("command", "file", "timeout", "update")
_STATE = "state:"
_MOST = 1 << 24  # characters of a file


class Offline(Exception):
    """The tracker gave no answer; why."""


class Issues:
    """`[issues]` of leftoff.toml: where issues are found."""

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
        """Return whether there is anywhere to look."""
        return bool(self.command or self.file)

    def fetch(self, project: str, issue: str) -> dict[str, Any]:
        """Return the issue as it is now; raise ``Offline`` if that fails."""
        import json

        text = (
            self._read(project, issue)
            if self.file
            else self._run(project, str(self.command), {"issue": issue})
        )
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
            # An issue's name, or a link of that name, must not lead out of the project.
            if outside(project, filled) and not outside(project, named):
                raise Offline(f"{path} leads outside of the project")
            with open(open_plain(path), encoding="utf-8") as file:
                return file.read(_MOST)
        except (OSError, ValueError) as error:
            raise Offline(f"{path} cannot be read: {error}") from None

    def set_labels(self, project: str, issue: str, add: Sequence[str], remove: Sequence[str]) -> None:
        """Change the issue's labels by the command `update`; raise ``Offline`` if that fails."""
        words = {"issue": issue, "add": ",".join(add), "remove": ",".join(remove)}
        self._run(project, str(self.update), words)

    def _run(self, project: str, command: str, words: dict[str, str]) -> str:
        """Return what a command prints in which `{issue}` and the like stand for words."""
        import subprocess

        command = _filled(command, words)
        env = CALLER.environment({"LEFTOFF_ISSUE": words["issue"]})
        line = ["/bin/sh", "-c", command]
        nothing = subprocess.DEVNULL
        try:
            done = subprocess.run(
                line, cwd=project, env=env, stdin=nothing, capture_output=True, timeout=self.timeout
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:  # a NUL cannot be in a word
            raise Offline(f"the command failed: {error}") from None
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            why = f": {said[-1][:200]}" if said else ""
            raise Offline(f"the command ended with {done.returncode}{why}")
        return done.stdout.decode(errors="replace")


def _filled(command: str, words: dict[str, str]) -> str:
    """Replace each `{NAME}` of a command by its word. Raise ``Offline`` if the shell, or the command, would take it for
    more than a word: issues and labels may come from anywhere."""
    done, *rest = re.split(f"{{({'|'.join(words)})}}", command)
    for name, behind in zip(rest[::2], rest[1::2], strict=True):
        word = words[name]
        try:
            shlex.split(done)
            unquoted = not any(mark in done for mark in ("`", "$(", "<<"))
        except ValueError:  # its quotes are not closed
            unquoted = False
        plain = not word or shlex.quote(word) == word
        if not (unquoted or plain) or not _is_allowed(command, name, word):
            raise Offline(f"{word!r} cannot be told to the command as {{{name}}}")
        done += (shlex.quote(word) if unquoted else word) + behind
    return done


def _is_allowed(command: str, name: str, word: str) -> bool:
    """Return whether a word may be passed on. One that begins with a dash would be an option. And `gh` must not be sent
    to another host, which would get the user's token."""
    if command.startswith("gh ") and name == "issue" and "/" in word:
        return word.startswith(f"https://{CALLER.variable('GH_HOST') or 'github.com'}/")
    return not word.startswith("-") and "\0" not in word


def snapshot(found: dict[str, Any], branch: str | None, at: int) -> dict[str, Any]:
    """Return what is stored of an issue."""
    return {
        "title": str(found.get("title") or ""),
        "body": str(found.get("body") or ""),
        "labels": _names(found.get("labels")),
        "assignees": _names(found.get("assignees")),
        "state": str(found.get("state") or "open").lower(),
        "branch": branch,
        "taken_at": iso(at),
    }


def take_issue(
    settings: Settings, project: str, issue: str | None, branch: str | None, at: int
) -> dict[str, Any]:
    """Return the snapshot as `context` records; empty if there is no issue, no tracker, or no answer."""
    issues = settings.parsed("issues", Issues) if issue else None
    if not issue or issues is None or not issues.known:
        return {}
    try:
        taken = snapshot(issues.fetch(project, issue), branch, at)
    except Offline:
        return {}
    label = next((label for label in taken["labels"] if label.startswith(_STATE)), None)
    return {ISSUE: taken, **({STATE_LABEL: label} if label else {})}


def put_issue(changes: ChangeSet, taken: dict[str, Any]) -> None:
    for key, value in taken.items():
        changes.put("context", key, value)


def set_state(settings: Settings, project: str, issue: str, wanted: str) -> str | None:
    """Give an issue the state label that the work has come to, if `[issues] update` says how. Return the label that it
    had; ``None`` if nothing was changed. Raise ``Offline`` if the tracker did not answer."""
    issues = settings.parsed("issues", Issues)
    if not issues.known or issues.update is None:
        return None
    labels = _names(issues.fetch(project, issue).get("labels"))
    there = [label for label in labels if label.startswith(_STATE)]
    if not there or there == [wanted]:
        return None
    issues.set_labels(project, issue, [wanted], [label for label in there if label != wanted])
    return ", ".join(there)


def _names(things: Any) -> list[str]:
    """Return labels and assignees, which trackers give as texts or as objects with a name."""
    out = []
    for thing in things if isinstance(things, list) else ():
        if isinstance(thing, dict):
            thing = thing.get("name") or thing.get("login")
        if isinstance(thing, str):
            out.append(thing)
    return sorted(out)
