"""The values of the screens of one run: its steps, one step, files, comparison, an agent's session, how to continue."""

from __future__ import annotations

import shlex
from typing import Any

from leftoff.clock import millis
from leftoff.engine.attempt_logs import Choice
from leftoff.engine.project import Project
from leftoff.engine.resume_answers import ResumeRequest
from leftoff.engine.show import StepsWanted, step_page, step_record
from leftoff.errors import LeftoffError, NotFound
from leftoff.model.words import STEP_STATUS
from leftoff.operations.checkpoints import brief_run, compare_versions
from leftoff.operations.page_actions import at_a_glance, run_records
from leftoff.operations.resuming import judge
from leftoff.operations.run_files import file_at
from leftoff.operations.run_reports import step_named
from leftoff.operations.runs import get, target
from leftoff.operations.watching import LogFile, logs_of
from leftoff.web.page_text import bare_text, compared, file_preview, tree
from leftoff.web.served import ScreenRequest


def heading(project: Project, asked: ScreenRequest) -> dict[str, Any]:
    """What every screen of a run shows. ``seen``: the run at a glance. ``at``: the version, if ``?at=`` names one."""
    found, seen = at_a_glance(project, asked.caller, asked.ref)
    version = found.version
    return {
        "run": seen.info.to_json(),
        "seen": seen,
        "at": version.seq if version is not None else None,
        "then": version.to_json() if version is not None else None,
        "card": seen.info.row.card,
    }


# -- steps

_STEPS_PAGE = 50


def run_screen(project: Project, asked: ScreenRequest) -> dict[str, Any]:
    """The steps by the page, and the variables. ``?status=``, ``?text=``, ``?after=``: which steps."""
    status = asked.query.get("status", "")
    order, _, path = asked.query.get("after", "").partition("|")
    wanted = StepsWanted(
        status=(status,) if status in STEP_STATUS else (),
        text=asked.query.get("text", "").strip(),
        after=(order, path),
        limit=_STEPS_PAGE,
    )
    found = step_page(project.store, target(project, asked.caller, asked.ref), wanted)
    others = run_records(project, asked.caller, asked.ref, "variable", "note")
    at = asked.query.get("at")
    more = {"status": status, "text": wanted.text, "at": at, "after": "|".join(found.next or ())}
    return {
        **heading(project, asked),
        "tab": "run",
        "steps": [_timed(record, project.now) for record in found.steps],
        "more": more if found.next else None,
        "counts": found.counts,
        "wanted": wanted,
        "statuses": STEP_STATUS,
        "variables": tree(others["variable"]),
        "notes": [
            note.get("text", "") for note in list(others["note"].values())[-5:] if isinstance(note, dict)
        ],
    }


def _timed(record: dict[str, Any], now: int) -> dict[str, Any]:
    """Add to a step how long it took, and what share that is of its estimate."""
    began, ended = millis(record.get("started_at")), millis(record.get("completed_at"))
    if began is None or record.get("status") in ("pending", "skipped"):
        took = None
    elif ended is not None:
        took = (ended - began) / 1000
    else:
        took = (now - began) / 1000 if record.get("status") == "running" else None
    estimate = record.get("estimate")
    if not isinstance(estimate, (int, float)) or isinstance(estimate, bool) or estimate <= 0:
        estimate = None
    share = round(100 * took / estimate) if estimate is not None and took is not None else None
    return {**record, "took": took, "estimate": estimate, "share": share, "why": _why(record)}


def _why(record: dict[str, Any]) -> str:
    """Return the error of a step or turn in a line."""
    error = record.get("error")
    if isinstance(error, dict):
        return str(error.get("message") or error.get("type") or "")
    return str(error or "")


# -- one step

_TAIL = 60_000  # bytes of a log that are shown
_SHOWN_APART = ("step", "title", "status", "attempt", "started_at", "completed_at", "error", "result", "item")


def step_screen(project: Project, asked: ScreenRequest) -> dict[str, Any]:
    """One step and its log. ``?step=``, ``?attempt=``."""
    path = step_named(project, target(project, asked.caller, asked.ref).row, asked.query.get("step", ""))
    record = step_record(path, get(project, asked.caller, f"step/{path}", asked.ref, redacted=True))
    error = record.get("error")
    return {
        **heading(project, asked),
        "tab": "run",
        "record": record,
        "why": _why(record),
        "traceback": error.get("traceback") or error.get("tail") or "" if isinstance(error, dict) else "",
        "result": tree({"result": record["result"]}) if record.get("result") is not None else [],
        "facts": tree({key: value for key, value in record.items() if key not in _SHOWN_APART and value}),
        "log": _log(project, asked, record["step"]),
        "is_running": record.get("status") == "running",
    }


def _log(project: Project, asked: ScreenRequest, path: str) -> dict[str, Any] | None:
    """Return the end of what an attempt printed."""
    try:
        found = logs_of(project, asked.caller, asked.run, Choice(path, asked.number("attempt"))).find()
    except NotFound:
        return None
    log = next((each for each in reversed(found.logs) if each.step == path), None)
    if log is None:
        return None
    text, cut = "", 0
    if log.path is not None:
        file = LogFile(log.path)
        try:
            cut = file.skip_to(_TAIL)
            text = b"".join(file.read(ended=True)).decode(errors="replace")
        except OSError:
            pass
    return {
        "attempt": log.attempt.number,
        "attempts": range(1, log.attempt.current + 1),
        "exit_code": log.attempt.exit_code,
        "text": bare_text(project.redactor.mask(text) + log.raised),
        "cut": cut > 0,
        "is_written": log.is_written,
        "there": log.there,
    }


# -- artifacts and tracked files

_FILES_PAGE = 200


def files_screen(project: Project, asked: ScreenRequest) -> dict[str, Any]:
    """Artifacts and tracked files. ``?text=``: in their names. ``?path=``: the one that is shown."""
    found = run_records(project, asked.caller, asked.ref, "artifact", "file")
    text = asked.query.get("text", "").strip().casefold()
    files = [
        {
            "kind": kind,
            "name": name,
            "path": str(about.get("path") or name),
            "size": about.get("size"),
            "status": str(about.get("status") or ""),
            "step": about.get("step"),
            "has_copy": "hash" in about,
        }
        for kind in ("artifact", "file")
        for name, about in found[kind].items()
        if isinstance(about, dict) and text in f"{name} {about.get('path') or name}".casefold()
    ]
    path = asked.query.get("path", "")
    return {
        **heading(project, asked),
        "tab": "artifacts",
        "files": files[:_FILES_PAGE],
        "left_out": max(0, len(files) - _FILES_PAGE),
        "text": asked.query.get("text", ""),
        "path": path,
        "shown": _shown_file(project, asked, path) if path else None,
    }


def _shown_file(project: Project, asked: ScreenRequest, path: str) -> dict[str, Any]:
    """Return the preview of a file, or why there is none."""
    if project.redactor.secret_file(path):
        return {"kind": "none", "why": "It is a secret file, and is not shown."}
    try:
        return file_preview(file_at(project, asked.caller, asked.ref, path).chunks(), project.redactor.mask)
    except LeftoffError as error:
        return {"kind": "none", "why": f"{error.message} {error.hint}"}


# -- two versions compared


def compare_screen(project: Project, asked: ScreenRequest) -> dict[str, Any]:
    """``?from=`` and ``?to=``: versions. Without the second, the run as it is now."""
    refs = [f"{asked.run}@{seq}" if seq is not None else None for seq in map(asked.number, ("from", "to"))]
    found = compare_versions(project, asked.caller, refs[0] or asked.run, refs[1])
    variables, changed = found.found.variables, found.found.steps
    before = {**variables.removed, **{key: each.old for key, each in variables.changed.items()}}
    after = {**variables.added, **{key: each.new for key, each in variables.changed.items()}}
    return {
        **heading(project, asked),
        "tab": "history",
        "old": found.old.version.to_json() if found.old.version is not None else None,
        "new": found.new.version.to_json() if found.new.version is not None else None,
        "variables": compared(before, after),
        "steps": [
            *((path, None, record.get("status"), _why(record)) for path, record in changed.added.items()),
            *((path, record.get("status"), None, "") for path, record in changed.removed.items()),
            *(
                (path, each.old.get("status"), each.new.get("status"), _why(each.new))
                for path, each in changed.changed.items()
            ),
        ],
        "files": [(path, each, _diff_lines(each.text)) for path, each in found.contents.items()],
    }


def _diff_lines(text: str) -> list[tuple[str, str]]:
    """Return the lines of a unified diff, each with its class."""
    if not text.startswith("--- "):
        return []
    looks = {"+": "plus", "-": "minus", "@": "quiet"}
    return [(looks.get(line[:1], ""), line) for line in text.rstrip("\n").split("\n")[2:]]


# -- an agent's session

_TURNS_PAGE = 100
_TURN_FILES = 20


def session_screen(project: Project, asked: ScreenRequest) -> dict[str, Any]:
    """Each prompt of an agent's session, what it did and what it cost; the newest turns first."""
    found = run_records(project, asked.caller, asked.ref, "turn", "context", "run")
    turns = [(key, turn) for key, turn in found["turn"].items() if isinstance(turn, dict)]
    spent = [about.get("spent") for about in found["context"].values() if isinstance(about, dict)]
    costs = [each for each in spent if isinstance(each, dict)]
    return {
        **heading(project, asked),
        "tab": "session",
        "turns": [_turn(key, turn) for key, turn in turns[::-1][:_TURNS_PAGE]],
        "left_out": max(0, len(turns) - _TURNS_PAGE),
        "spent": {
            "cost": sum(float(each.get("cost_usd") or 0) for each in costs),
            "turns": sum(int(each.get("turns") or 0) for each in costs),
        },
        "agents": sorted({str(turn["agent"]) for _, turn in turns if turn.get("agent")}),
    }


def _turn(key: str, turn: dict[str, Any]) -> dict[str, Any]:
    began, ended = millis(turn.get("started_at")), millis(turn.get("ended_at"))
    files = [str(path) for path in turn.get("files") or []]
    return {
        "number": key.lstrip("0") or key,
        "prompt": str(turn.get("prompt") or ""),
        "said": str(turn.get("said") or ""),
        "status": str(turn.get("status") or ""),
        "agent": str(turn.get("agent") or ""),
        "began": turn.get("started_at"),
        "took": (ended - began) / 1000 if began is not None and ended is not None else None,
        "files": files[:_TURN_FILES],
        "more_files": max(0, len(files) - _TURN_FILES) + int(turn.get("more_files") or 0),
        "failed": [each for each in turn.get("failed") or [] if isinstance(each, dict)],
        "error": _why(turn) if isinstance(turn.get("error"), dict) else "",
        "seq": turn.get("seq"),
    }


# -- how to continue

_PLAN_STEPS = 60
MOST_BRIEFED = 10_000  # steps; a larger run's brief is made only if the user asks for it
_VERDICTS = {
    "resume": "It can continue.",
    "warn": "It can continue; look at the findings.",
    "ask": "It needs your answer before it continues.",
    "refuse": "It cannot continue like this.",
}


def go_on_screen(project: Project, asked: ScreenRequest) -> dict[str, Any]:
    """The verdict, what would be done with each step, and the brief. ``?brief=1``: also of a large run."""
    found = target(project, asked.caller, asked.ref)
    report = judge(project, asked.caller, ResumeRequest(found, resumes=False))
    told = report.to_json()
    plan = [entry for entry in told["plan"] if entry["action"] != "skip"]
    is_briefed = len(told["plan"]) <= MOST_BRIEFED or bool(asked.query.get("brief"))
    return {
        **heading(project, asked),
        "tab": "go",
        "verdict": told["verdict"],
        "says": _VERDICTS[told["verdict"]],
        "findings": report.findings,
        "plan": plan[:_PLAN_STEPS],
        "left_out": max(0, len(plan) - _PLAN_STEPS),
        "done": len(told["plan"]) - len(plan),
        "brief": brief_run(project, asked.caller, asked.ref)["text"] if is_briefed else "",
        "folder": shlex.quote(project.folder),
    }
