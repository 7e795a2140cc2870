"""What an agent's session was asked, what it did and where it stopped, as lines for agents (the brief) and people."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from leftoff.clock import ago, millis
from leftoff.engine.agent_turns import CLOSED_BY, HANDED_OVER, WAITING, asks_to_go_on, last_question
from leftoff.engine.find import OPEN_TURN
from leftoff.engine.git import diff_stat, git_branch, git_head
from leftoff.engine.quoting import ends, fault_lines, named, quoted, word

AGENT_NAMES = {
    "claude": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "opencode": "OpenCode",
    "qwen": "Qwen Code",
}
_WORKING = ("alive", "quiet", "stalled")  # health of a run that an agent may be working on
_IN_A_LINE = 12  # names of files
_FAILURES = 5
_LEFT = 5  # turns
_DECIDING = (
    *("decid", "decision", "instead of", "rather than", "because", "chose", "will use", "we use", "agreed"),
    *("must not", "must stay", "no need", "not needed", "won't ", "only "),
)
_LARGEST = 1 << 20  # bytes of a new file whose lines are counted


def turns_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the turns of a run, in order, each with its number."""
    known = found["records"].get("turn", {}).items()
    return [{**turn, "number": key.lstrip("0") or key} for key, turn in known if isinstance(turn, dict)]


def other_errors(records: dict[str, Any]) -> dict[str, Any]:
    """Return the errors on record that did not end a turn. Those are reported with the turn."""
    ended = [turn.get("error") for turn in records.get("turn", {}).values() if isinstance(turn, dict)]
    return {key: error for key, error in records.get("error", {}).items() if error not in ended}


def agent_name(turn: dict[str, Any]) -> str:
    known = turn.get("agent")
    return AGENT_NAMES.get(str(known)) or (word(known) if known else "The agent")


# -- for people


def turn_lines(found: dict[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """Return the lines that say what was asked (newest first), where it stopped, and what is left to do."""
    turns, health = turns_of(found), found["health"]
    asked = []
    for turn in reversed(turns):
        end = "ended in an error" if turn.get("error") else _outcome(turn, health)
        asked.append(f"- {turn['number']}: {_prompt(turn, 300)}\n  {end}{_changed_files(turn)}")
    return asked, _stopped(turns, health), _left(turns, found["records"])


def _prompt(turn: dict[str, Any], most: int) -> str:
    if turn.get(HANDED_OVER):
        return f"handed over to {agent_name(turn)}"
    return quoted(ends(turn.get("prompt") or "", most), most + 9)


def _outcome(turn: dict[str, Any], health: str) -> str:
    status, error = turn.get("status"), turn.get("error")
    if status == "completed":
        first = turn.get("continues")
        unchanged = f"ended, and left turn {str(first).lstrip('0')} open"
        return unchanged if first else "ended well"
    if status == "failed" or error:
        why = _reason(error)
        return f"ended in an error: {quoted(why, 200)}" if why else "ended in an error"
    if status == WAITING:
        return f"waits for an answer: {quoted(turn.get('question') or '')}"
    if status == "interrupted":
        return "was cut off"
    return "is not over" if health in _WORKING else "was cut off: its session is gone"


def _reason(error: Any) -> str:
    return str(error.get("message") or error.get("type") or "") if isinstance(error, dict) else ""


def _changed_files(turn: dict[str, Any]) -> str:
    """Name the files that a turn changed."""
    files = [word(path) for path in turn.get("files") or []]
    more = len(files[_IN_A_LINE:]) + int(turn.get("more_files") or 0)
    return (
        f"; changed {', '.join(files[:_IN_A_LINE])}" + (f" and {more} more" if more else "") if files else ""
    )


def _stopped(turns: list[dict[str, Any]], health: str) -> list[str]:
    """Return how the last turn ended, or the one before if an agent is at work: what failed, and its last words."""
    if not turns:
        return []
    turn = turns[-2] if len(turns) > 1 and _is_at_work(turns[-1], health) else turns[-1]
    who = f" ({word(turn['agent'])})" if turn.get("agent") else ""
    out = [f"- turn {turn['number']}{who} {named(_outcome(turn, health))}"]
    if turn.get("said"):
        out.append(f"- the agent's last words: {quoted(turn['said'], 2000)}")
    for failure in (turn.get("failed") or [])[-_FAILURES:]:
        if isinstance(failure, dict):
            command, error = (quoted(ends(failure.get(key) or "", 400), 410) for key in ("command", "error"))
            out.append(f"- failed: {command}: {error}")
    return out


def _left(turns: list[dict[str, Any]], records: dict[str, Any]) -> list[str]:
    """Return what was asked in the turns that are still open."""
    key, out = records.get("run", {}).get(OPEN_TURN), list[str]()
    first = turns[-1].get("continues") or key if turns else key
    for turn in reversed(turns if key else []):
        if turn.get("status") != "completed" and CLOSED_BY not in turn:
            out.append(f"- what turn {turn['number']} was asked: {_prompt(turn, 1200)}")
        if turn["number"] == str(first).lstrip("0") or len(out) == _LEFT:
            break
    return out[::-1]


def _is_at_work(turn: dict[str, Any], health: str) -> bool:
    return turn.get("status") == "running" and health in _WORKING


# -- for agents


class Quote(NamedTuple):
    """A text of others with its label. ``tail``: how much of its end is shown if it is cut, from 0 to 1."""

    label: str
    text: str
    tail: float = 0.5


class Story:
    """The turns that a new session needs to know: from the first that is open to the last, or the last alone."""

    def __init__(self, found: dict[str, Any], now: int, project: str) -> None:
        self._found, self._now, self._project = found, now, project
        self.turns = turns_of(found)
        first = str(self.turns[-1].get("continues") or "").lstrip("0") if self.turns else ""
        numbers = [turn["number"] for turn in self.turns]
        begins = numbers.index(first) if first in numbers else len(self.turns) - 1
        while begins > 0 and not _asks(self.turns[begins]):  # it asks for what an earlier one asked for
            begins -= 1
        self.chain = self.turns[begins:]
        self.before = self.turns[:begins]
        at_work = len(self.chain) > 1 and _is_at_work(self.chain[-1], found["health"])
        self.last = self.chain[-2] if at_work else self.chain[-1]

    @property
    def task(self) -> Quote:
        return Quote("Task: ", str(self.chain[0].get("prompt") or self._found["title"] or ""))

    @property
    def asked(self) -> list[Quote]:
        """What else the user said: after the task, then before it, newest first."""
        later = [("Then asked: ", turn["prompt"]) for turn in self.chain[1:] if _asks(turn)]
        earlier = [("Asked before: ", turn["prompt"]) for turn in self.before[::-1] if _asks(turn)]
        return [Quote(label, str(text)) for label, text in (*later, *earlier) if text != self.task.text]

    def ended(self) -> str:
        """Return how the last turn ended, and when."""
        turn, who, error = self.last, agent_name(self.last), self.last.get("error")
        status, health = turn.get("status"), self._found["health"]
        if _is_at_work(turn, health):
            return f"{who} is at work on it, since {self._when(turn.get('started_at'))}"
        when = self._when(turn.get("ended_at") or self._found["updated_at"])
        if status == WAITING:
            return f"{who} asked the user a question at {when}, and waits for the answer"
        if error or status == "failed":
            why = _reason(error)
            return f"{who} was stopped by an error at {when}" + (
                f": {quoted(ends(why, 160), 170)}" if why else ""
            )
        if status == "completed":
            left = ", and did not do what was left" if turn.get("continues") else ""
            return f"{who} ended its turn at {when}{left}"
        if status == "running" or turn.get("killed"):
            return f"{who} was killed in mid-task at {when}"
        return f"{who} was interrupted in mid-task at {when}"

    def _when(self, at: Any) -> str:
        ms = millis(at)
        if ms is None:
            return word(at)
        day = "" if self._now - ms < 43_200_000 else f"{at[:10]} "
        return f"{day}{at[11:16]} UTC, {ago(ms, self._now)}"

    def git(self) -> str:
        """Return where git stands; empty outside of a repository."""
        head, branch = git_head(self._project), git_branch(self._project)
        if head is None:
            return f"Git: {word(branch)}, nothing committed yet." if branch else ""
        began, known = self.chain[0].get("git_head"), self._found["git_branch"]
        moved = f" (it was {word(known)})" if known and branch != known else ""
        since = "nothing committed since" if began == head else f"it was at {word(str(began)[:7])} before"
        return f"Git: {word(branch or 'detached')}{moved} at {head[:7]}" + (f", {since}." if began else ".")

    def who(self) -> list[str]:
        """Return who did what if several agents or sessions worked on it: all but the last."""
        out = []
        for turn, after in zip(self.turns, self.turns[1:], strict=False):
            if turn.get("session") != after.get("session"):
                end = {"completed": "", WAITING: ": asked a question"}.get(str(turn.get("status")))
                end = f": {_outcome(turn, 'dead')}" if end is None else end
                until = self._when(turn.get("ended_at"))
                out.append(f"{agent_name(turn)}, until {until}{end}{_changed_files(turn)}")
        return out

    def files(self, most: int) -> list[str]:
        """Return the files that were changed, with their lines added and removed."""
        paths = list(dict.fromkeys(path for turn in self.chain for path in turn.get("files") or ()))
        known = {about.get("path"): about for about in self._found["files"]}
        stats = diff_stat(self._project, paths[:most])
        out = []
        for path in paths[:most]:
            about, there = known.get(path, {}), os.path.lexists(os.path.join(self._project, path))
            if stats is None:  # no repository
                stat = str(about.get("status") or "changed") if there else "deleted"
            else:
                stat = stats.get(path) or (_new_lines(self._project, path) if there else "deleted")
            by_shell = (not about or about.get("by") == "git") and stats is not None and stat != "committed"
            out.append(
                f"{word(path)} {word(stat) if stats is None else stat}{' (by a shell)' if by_shell else ''}"
            )
        more = len(paths[most:]) + sum(int(turn.get("more_files") or 0) for turn in self.chain)
        return [*out, f"and {more} more"] if more else out

    def failing(self, most: int, whole: bool) -> list[Quote]:
        """Return the commands that failed last, each with the lines that name the fault or all that is stored."""
        known = [one for turn in self.chain for one in turn.get("failed") or () if isinstance(one, dict)]
        out = []
        for one in known[-most:]:
            command, error = str(one.get("command") or ""), str(one.get("error") or "")
            faults = "" if whole else fault_lines(error).replace("\n", " | ")
            label = f"Failing: {quoted(ends(command, 120), 130)} → "
            out.append(Quote(label, faults, 0.6) if faults else Quote(label, error, 0.85))
        return out

    def last_words(self) -> Quote:
        said = [turn for turn in self.chain[::-1] if turn.get("said")]
        worked = [turn for turn in said if not (turn.get("status") == "completed" and turn.get("continues"))]
        text = str(next((turn["said"] for turn in [*worked, *said]), ""))
        return Quote("Last words: ", text.strip().removesuffix(self._questions()[-1]))

    def _questions(self) -> list[str]:
        """Return what the user was asked and has not answered, the last one last."""
        found = [""]
        for turn in self.chain:
            if _asks(turn):
                found = [""]
            asked = str(turn.get("question") or last_question(str(turn.get("said") or "")))
            found += [asked] if asked not in found else []
        return found

    def question(self) -> Quote:
        return Quote("Unanswered question to the user: ", " ".join(self._questions()[-2:]).strip(), 0.9)

    def said_before(self) -> Quote:
        """Return what was decided, as far as it was said; else what was said before the last words."""
        last, asked, texts = self.last_words().text, self._questions()[1:], list[str]()
        for turn in self.turns:
            texts += [*(turn.get("said_before") or ()), turn.get("said") or ""]
        lines = [
            line for text in texts if text != last for line in str(text).replace(". ", ".\n").split("\n")
        ]
        lines = list(
            dict.fromkeys(
                line.strip() for line in lines if line.strip() and not any(one in line for one in asked)
            )
        )
        decided = [line for line in lines if any(mark in f"{line.lower()} " for mark in _DECIDING)]
        return Quote("Said before: ", " ".join(decided or lines[-3:]), 0.6)

    def helpers(self) -> list[Quote]:
        """Return what sub-agents answered, and what was running."""
        members = self._found["records"].get("member", {})
        answered = [
            Quote(f"Sub-agent {word(about.get('type') or key)} answered: ", str(about["message"]))
            for key, about in members.items()
            if isinstance(about, dict) and about.get("message")
        ]
        label = "Workflow run of the agent, cut off; a new one repeats what has finished: "
        runs = [Quote(label, str(one)) for one in self.last.get("workflows") or ()]
        doing = self.last.get("doing") if self.last.get("status") != "completed" else None
        return [
            *runs,
            *(Quote("Was running, without a result: ", str(one)) for one in doing or ()),
            *answered[::-1],
        ]


def _asks(turn: dict[str, Any]) -> bool:
    """Return whether the prompt of a turn says something that is to be done, or how."""
    prompt = turn.get("prompt") or ""
    return bool(prompt) and not turn.get(HANDED_OVER) and not asks_to_go_on(prompt)


def _new_lines(project: str, path: str) -> str:
    """Return how long a new file is, which git does not compare."""
    try:
        full = os.path.join(project, path)
        if os.path.islink(full) or not os.path.isfile(full) or os.path.getsize(full) > _LARGEST:
            return "new"
        with open(full, "rb") as file:
            return f"new +{len(file.read().splitlines())}"
    except OSError:
        return "new"
