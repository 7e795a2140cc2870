"""What the agents said, kept for `make test`: the events of their hooks and the lines that they print, scrubbed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.real_agents.agents import Agent, calls, flat
from tests.real_agents.bed import BIN, Bed, Project
from tests.real_agents.cache import cache, versions
from tests.real_agents.life import Life
from tests.real_agents.model.answers import Answer, Call

RECORDED = Path(__file__).parents[1] / "agents" / "recorded"
HOOKS = {
    "claude": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "opencode": ".opencode/plugins/leftoff.js",
    "qwen": ".qwen/settings.json",
}
SPY = """#!/bin/sh
event=$(cat)
printf '%s\\n' "$event" >> '{kept}'
printf '%s' "$event" | '{leftoff}' "$@"
"""
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_HEX = re.compile(r"(?<![0-9a-zA-Z])(a|toolu_|call_|msg_|req_|fc_)([0-9a-f]{16,32})(?![0-9a-f])")
_OWN = re.compile(r'(/cc-socks/|"runId": ")[0-9a-z-]+')  # named for a process, or by chance
_TALK = (
    "hook_started",
    "hook_response",
    "hook_progress",
    "commands_changed",
)  # what Claude Code says of others


class Recorder:
    """One project in which everything that an agent says is kept."""

    def __init__(self, bed: Bed, agent: Agent) -> None:
        self.bed, self.agent = bed, agent
        self.project = bed.project(agent.name)
        self.kept = bed.root / f"events-{agent.name}.jsonl"
        self.lives: list[dict[str, Any]] = []
        spy = bed.root / "spy"
        spy.write_text(SPY.format(kept=self.kept, leftoff=BIN / "leftoff"))
        spy.chmod(0o755)
        self._spied(self.project, spy)

    def _spied(self, project: Project, spy: Path) -> None:
        path = project.folder / HOOKS[self.agent.name]
        text = path.read_text()
        path.write_text(text.replace("exec leftoff ", f"exec {spy} ").replace('["leftoff"', f'["{spy}"'))

    def life(self, prompt: str, *answers: Answer, resume: str | None = None, helper: str = "") -> Life:
        """A life of the agent, whose lines are kept with what the model counted. ``helper``: what a helper that is
        asked to look around answers."""
        self.bed.model.script(*answers)
        if helper:
            self.bed.model.replies = lambda request: (
                Answer(helper) if request.says("Look around") and not request.says(prompt) else None
            )
        found = self.agent.tell(self.project, prompt, resume=resume, todo=True)
        lines = [_plain(line) for line in found.lines if line.get("subtype") not in _TALK]
        about = {"prompt": prompt, "exit": found.process.returncode, "turns": self.bed.model.served.turns}
        self.lives.append({**about, "stderr": found.err[-800:], "lines": lines})
        return found

    def write(self) -> None:
        """Both files, named for the version; those of an older one go."""
        folders = {
            self.project.folder: "$CWD",
            self.bed.home: "$HOME",
            self.bed.root: "$BED",
            cache(): "$CACHE",
        }
        scrub = Scrubber({str(folder): put for folder, put in folders.items()} | {f"{BIN}/": ""})
        for old in RECORDED.glob(f"{self.agent.name}-*.jsonl"):
            old.unlink()
        start = RECORDED / f"{self.agent.name}-{versions()[self.agent.name]}"
        events = self.kept.read_text().splitlines()
        start.with_name(f"{start.name}.events.jsonl").write_text(
            "".join(f"{scrub(line)}\n" for line in events)
        )
        lives = (scrub(json.dumps(life)) for life in self.lives)
        start.with_name(f"{start.name}.lines.jsonl").write_text("".join(f"{life}\n" for life in lives))


def _plain(line: dict[str, Any]) -> dict[str, Any]:
    """A line; of what Claude Code says of itself at first, only what is no list of everything that it has."""
    if line.get("subtype") != "init":
        return line
    return {key: value for key, value in line.items() if not isinstance(value, list | dict)}


class Scrubber:
    """Texts without folders of this machine and without ids, of which the same one is the same again."""

    def __init__(self, folders: dict[str, str]) -> None:
        self.folders = folders
        mangled = {re.sub(r"[^0-9A-Za-z]", "-", folder): "$MANGLED" for folder in folders}
        self.folders |= {name: put for name, put in mangled.items() if name.strip("-")}
        self.ids: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        for folder, put in self.folders.items():
            text = text.replace(folder, put)
        text = re.sub(r'\$HOME/[^"\s]*/([^/"\s]+\.jsonl)', r"$HOME/\1", text)
        text = _OWN.sub(r"\g<1>1", text)
        text = _UUID.sub(lambda found: self._id(found[0], "00000000-0000-4000-8000-{:012d}"), text)
        return _HEX.sub(lambda found: found[1] + self._id(found[2], "{:016d}"), text)

    def _id(self, known: str, form: str) -> str:
        return self.ids.setdefault(known, form.format(len(self.ids) + 1))


def record(bed: Bed, agent: Agent) -> None:
    """A good turn, two that end in errors of the service, one that is asked to go on; of Claude Code what it does by
    itself, too."""
    kept = Recorder(bed, agent)
    write = agent.write(str(kept.project.folder / "guide.md"), "# Guide\n")
    items = {"Write the guide": "completed", "Ship it": "in_progress"}
    parts = flat(agent.lists(items), calls(write, agent.shell("echo no; exit 3")))
    kept.life("Write the guide", *parts, Answer("The guide is written."))
    kept.life("Break it", *[Answer(status=400, message="prompt is too bad")] * 9)
    kept.life("Break it again", *[Answer(status=529, message="Overloaded", wait=1)] * 40)
    if agent.name == "claude":
        session = agent.session(kept.life("Start", Answer("Started.")))
        kept.life("/compact", Answer("<summary>What matters.</summary>"), resume=session)
        helper = Call("Agent", {"description": "look", "prompt": "Look around", "subagent_type": "Explore"})
        answers = (*calls(helper), Answer("Fine."))
        kept.life("Ask a helper", *answers, resume=session, helper="I looked around.")
    kept.life("continue", Answer("All done."))
    kept.write()
