"""What an agent does not report, from the end of its transcript: what it said and what it was doing in a turn that was
cut off, and commands of Codex that failed.

Every program writes one JSON object per line, each in its own form. All have the speaker and the text in common.
A transcript is written late and may end anywhere, so unreadable lines are skipped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from leftoff.model.codec import decode
from leftoff.model.ids import is_run_id

_TAIL = 1 << 18  # bytes that are looked at
_AGENT = ("assistant", "gemini", "model")
ANSWERED, CANCELLED, OPEN = "answered", "cancelled", "open"
_TOLD = ("description", "command", "file_path", "prompt", "pattern")  # what says most of a call of a tool
_RECENT_S = 7 * 86400  # how long workflow runs are looked at after the last line in their journal
_SAME = 60  # characters by which a prompt is known again


class Since(NamedTuple):
    """What a transcript says since a prompt. ``said``: the agent's texts, in order. ``error``: of its service, if that
    came last. ``failed``: commands that failed, with their output, if the agent writes that down. ``doing``: the calls
    of tools that had no answer."""

    said: list[str]
    error: str
    failed: list[tuple[str, str]]
    doing: list[str]


def since_prompt(path: str, prompt: str) -> Since:
    """Return what the agent said and did after that prompt; all of the end of the transcript if the prompt is not in
    it.

    Claude Code writes an error of its service as if the agent had said it, with a mark.
    """
    start, error = " ".join(prompt.split())[:_SAME], ""
    said, failed, doing, answered = list[str](), list[tuple[str, str]](), list[str](), set[str]()
    for line in reversed(_tail(path)):
        one = _decoded(line)
        failed += _failed_command(one.get("payload"))
        for who, text in _said(one):
            if who == "user" and start and start in " ".join(text.split()):
                return Since(said[::-1], error, failed[::-1], doing[::-1])
            if who in _AGENT and text.strip() and one.get("isApiErrorMessage") is not True:
                said += [text.strip()] if said[-1:] != [text.strip()] else []
            elif who in _AGENT and not said:
                error = error or text.strip()
        for part in _parts(one):
            if part.get("type") == "tool_result":
                answered.add(str(part.get("tool_use_id")))
            elif part.get("type") == "tool_use" and str(part.get("id")) not in answered:
                given = part.get("input")
                words = (
                    next((given[key] for key in _TOLD if given.get(key)), "")
                    if isinstance(given, dict)
                    else ""
                )
                doing.append(f"{part.get('name')}: {words}")
    return Since(said[::-1], error, failed[::-1], doing[::-1])


class WorkflowRun(NamedTuple):
    """A workflow run of Claude Code: its id and name, its session, whether it ended by itself, and which of its agents
    have finished."""

    run_id: str
    name: str
    session: str
    ended: bool
    finished: list[str]
    others: list[str]

    @property
    def told(self) -> str:
        finished, others = (", ".join(names) or "none" for names in (self.finished, self.others))
        return f"{self.run_id}: finished: {finished}; not finished: {others}"


def workflow_runs(path: str) -> list[WorkflowRun]:
    """Return the workflow runs of a session of Claude Code that wrote to their journals in the last seven days.

    Claude Code keeps the journals near the transcript, and writes a document when a run has ended.
    """
    folder, out = path.removesuffix(".jsonl"), []
    journals, own = os.path.join(folder, "subagents", "workflows"), os.path.join(folder, "workflows")
    for run in sorted(os.listdir(journals)) if os.path.isdir(journals) else ():
        journal = os.path.join(journals, run, "journal.jsonl")
        if not run.startswith("wf_") or not is_run_id(run) or not _is_recent(journal):
            continue
        lines = [_decoded(line) for line in _tail(journal)]
        done = {one.get("key") for one in lines if one.get("type") == "result"}
        begun = {one.get("key"): str(one.get("label")) for one in lines if one.get("type") == "started"}
        names = [[label for key, label in begun.items() if (key in done) == state] for state in (True, False)]
        scripts = os.path.join(own, "scripts")
        files = os.listdir(scripts) if os.path.isdir(scripts) else []
        name = next((file[: -len(run) - 4] for file in files if file.endswith(f"-{run}.js")), run)
        ended = os.path.exists(os.path.join(own, f"{run}.json"))
        out.append(WorkflowRun(run, name, os.path.basename(folder), ended, *names))
    return out


def all_workflow_runs(path: str) -> list[WorkflowRun]:
    """Return the workflow runs of all sessions in this transcript's folder."""
    folder = os.path.dirname(path)
    names = os.listdir(folder) if path and os.path.isdir(folder) else []
    sessions = sorted({name.removesuffix(".jsonl") for name in names})
    return [run for name in sessions for run in workflow_runs(os.path.join(folder, name))]


def _is_recent(path: str) -> bool:
    try:
        return os.stat(path).st_mtime > time.time() - _RECENT_S
    except OSError:
        return False


def gemini_end(path: str) -> str:
    """Return how the transcript of Gemini CLI ends: with an answer, with an interrupt, or with neither (``OPEN``).
    Empty if there is no transcript.

    Gemini CLI writes an answer once it is complete, and an interrupt at once; both before it calls its hooks.
    """
    lines = _tail(path)
    for one in map(_decoded, reversed(lines)):
        kind, text = one.get("type"), _text(one.get("content")).strip()
        if kind == "info" and text == "Request cancelled.":
            return CANCELLED
        if kind in ("gemini", "user"):
            return ANSWERED if kind == "gemini" and text else OPEN
    return OPEN if lines else ""


def failed_commands(path: str, turn: str) -> list[tuple[str, str]]:
    """Return the commands of one turn of Codex that failed, and the output of each."""
    told = (_decoded(line).get("payload") for line in _tail(path) if b'"CommandExecution"' in line)
    mine = (one for one in told if isinstance(one, dict) and one.get("turn_id") == turn)
    return [failure for one in mine for failure in _failed_command(one)]


def _failed_command(told: Any) -> list[tuple[str, str]]:
    """Return the command of an entry of Codex and its output, if it is one that failed."""
    item = told.get("item") if isinstance(told, dict) else None
    words, code = (item.get("command"), item.get("exit_code")) if isinstance(item, dict) else (None, None)
    if not isinstance(item, dict) or not isinstance(words, list) or not words or not isinstance(code, int):
        return []
    said = str(item.get("aggregated_output") or "").strip()
    return [(str(words[-1]), f"Exit code {code}\n{said}".strip())] if code else []


def _tail(path: str) -> list[bytes]:
    """Return the last lines of a regular file; none if there is no such file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    with open(fd, "rb") as file:
        size = os.fstat(fd).st_size  # that of a pipe or a device is 0
        file.seek(max(size - _TAIL, 0)) if size else None
        return file.read(_TAIL).splitlines() if size else []


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        found = decode(line)
    except (ValueError, StopIteration, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _said(outer: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield who says what in a line."""
    for one in (outer, outer.get("message"), outer.get("payload")):
        if isinstance(one, dict):
            who = one.get("role") or one.get("type")
            if isinstance(who, str):
                yield who, _text(one.get("content") or one.get("parts"))


def _parts(outer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of a message of Claude Code."""
    message = outer.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(
        part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)
    )
