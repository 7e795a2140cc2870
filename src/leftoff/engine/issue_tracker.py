"""The issue that a run works on: fetched by a command or from a file, and stored as a snapshot.

The answer of a tracker may be missing, late or of another shape. Then nothing is known of the issue.
"""

from __future__ import annotations

import os
import re
from typing import Any

from leftoff.clock import iso
from leftoff.engine.settings import CALLER, Settings, outside
from leftoff.files import open_plain
from leftoff.model.changes import ChangeSet
from leftoff.model.words import ISSUE

STATE_LABEL = "current_state_label"  # a key of `context`: the workflow's state, as the issue's labels say it
COMMAND = "gh issue view {issue} --json title,body,labels,assignees,state"
_STATE = "state:"
_MOST = 1 << 24  # characters of a file


class Offline(Exception):
    """The tracker gave no answer; why."""


class Issues:
    """Where the issues of a project are found."""

    def __init__(self, settings: Settings) -> None:
        self.command, self.file, self.timeout, self.update = settings.issues
        if self.command is None and not self.file:
            from shutil import which

            self.command = COMMAND if which("gh") else None

    @property
    def known(self) -> bool:
        """Return whether there is anywhere to look."""
        return bool(self.command or self.file)

    def fetch(self, project: str, issue: str) -> dict[str, Any]:
        """Return the issue as it is now; raise ``Offline`` if that fails."""
        import json

        words = {"issue": issue}
        text = self._read(project, issue) if self.file else self.run(project, str(self.command), words)
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

    def run(self, project: str, command: str, words: dict[str, str]) -> str:
        """Return what a command prints in which `{issue}` and the like stand for words."""
        import subprocess

        line = ["/bin/sh", "-c", _filled(command, words)]
        env, nothing = CALLER.environment({"LEFTOFF_ISSUE": words["issue"]}), subprocess.DEVNULL
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
    """Replace each `{NAME}` of a command by its word.

    Issues and labels may come from anywhere. Raise ``Offline`` if the command would take the word for an option, or if
    the shell would take it for more than a word and quoting cannot prevent that because the command has quotes itself.
    """
    from shlex import quote

    is_plain = not re.search(r"[\"'`\\]|\$\(|<<", command)

    def word_of(match: re.Match[str]) -> str:
        word = words[match[1]]
        is_allowed = not word.startswith("-") and "\0" not in word
        if command.startswith("gh ") and match[1] == "issue" and "/" in word:
            # `gh` would send the user's token to any host that the word names.
            is_allowed = word.startswith(f"https://{CALLER.variable('GH_HOST') or 'github.com'}/")
        quoted = quote(word) if word or is_plain else ""
        if not is_allowed or (quoted != word and not is_plain):
            raise Offline(f"{word!r} cannot be told to the command as {{{match[1]}}}")
        return quoted

    return re.sub(f"{{({'|'.join(words)})}}", word_of, command)


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


def _names(things: Any) -> list[str]:
    """Return labels and assignees, which trackers give as texts or as objects with a name."""
    out = []
    for thing in things if isinstance(things, list) else ():
        if isinstance(thing, dict):
            thing = thing.get("name") or thing.get("login")
        if isinstance(thing, str):
            out.append(thing)
    return sorted(out)


def take_issue(
    settings: Settings, project: str, issue: str | None, branch: str | None, at: int
) -> dict[str, Any]:
    """Return the snapshot as `context` records; empty if there is no issue, no tracker, or no answer."""
    issues = Issues(settings) if issue else None
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
    issues = Issues(settings)
    if not issues.known or issues.update is None:
        return None
    labels = _names(issues.fetch(project, issue).get("labels"))
    there = [label for label in labels if label.startswith(_STATE)]
    if not there or there == [wanted]:
        return None
    left = ",".join(label for label in there if label != wanted)
    issues.run(project, issues.update, {"issue": issue, "add": wanted, "remove": left})
    return ", ".join(there)
