#!/usr/bin/env python3
"""The animation in the README: a coding agent is killed in mid-task, and a new session continues.

    make pictures    record the session, and write docs/pictures/agent.svg

The session is real: Claude Code from npm in a terminal (tmux), with the hooks of `leftoff install claude`. Only the
model is scripted, as in tests/real_agents, so no account is needed. Each frame is what the terminal shows then.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from rich.cells import cell_len  # noqa: E402
from rich.color import Color  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.style import Style  # noqa: E402
from rich.terminal_theme import MONOKAI  # noqa: E402
from rich.text import Text  # noqa: E402

from tests.real_agents import cache, namespace  # noqa: E402 - of this tree
from tests.real_agents.agents import AGENTS, Agent, flat  # noqa: E402
from tests.real_agents.bed import Bed, Project  # noqa: E402
from tests.real_agents.life import below, end  # noqa: E402
from tests.real_agents.model.answers import Answer  # noqa: E402
from tests.real_agents.scenarios.terminals import QUESTIONS  # noqa: E402

README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "pictures" / "agent.svg"
COLUMNS, ROWS = 88, 38
PATIENCE = 120.0  # seconds that the recording waits for a program
TASK = "Move the parser to the new lexer"
STEPS = ("Read the old parser", "Port the tokens", "Port the grammar", "Run the tests")
BRIEF = "You continue unfinished work"
SETTINGS = {
    "permissions": {"defaultMode": "acceptEdits"},
    "enableAllProjectMcpServers": True,
    "tui": "default",
}
TITLE = "Claude Code is killed in mid-task. leftoff status shows its progress. A new session resumes and completes it."
CHAR, LINE, EDGE, HEAD, FOOT = 8.43, 19, 16, 34, 46  # of the drawing, in its units
ASKED = {**QUESTIONS, "Make auto mode your default": "No, keep accept edits"}
POSTER = "resumed"  # the frame that is shown if nothing moves


@dataclass(frozen=True)
class Frame:
    """One frame: the screen with its ANSI colours, a caption, how long it shows, and the brief that the session got."""

    name: str
    caption: str
    seconds: float
    shown: str
    told: str


class Shell:
    """A bash in a separate tmux."""

    def __init__(self, project: Project) -> None:
        self.env = {**project.bed.env, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        (project.bed.home / "rc").write_text("PS1='$ '\n")
        bash = f"bash --noprofile --rcfile {project.bed.home}/rc -i"
        size = ("-x", str(COLUMNS), "-y", str(ROWS))
        self.tmux("-f", "/dev/null", "new-session", "-d", *size, "-c", str(project.folder), bash)
        self.tmux("set", "-g", "focus-events", "on")  # or Claude Code asks for it

    def tmux(self, *words: str) -> str:
        line = ["tmux", "-L", "leftoff-pictures", *words]
        return subprocess.run(line, env=self.env, capture_output=True, text=True).stdout

    def screen(self, *, colours: bool = False) -> str:
        return self.tmux("capture-pane", "-p", *(["-e"] if colours else []))

    def types(self, text: str) -> None:
        self.tmux("send-keys", "-l", text)
        self.until(lambda: text[-20:] in self.screen().replace("\n", ""))

    def enter(self) -> None:
        self.tmux("send-keys", "Enter")

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait, and answer the questions of Claude Code's first start."""
        limit = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > limit:
                raise TimeoutError(f"the terminal shows:\n{self.screen()}")
            for question, answer in ASKED.items():
                if question in self.screen():
                    marked = [line for line in self.screen().splitlines() if line.strip()[:1] == "❯"]
                    self.tmux("send-keys", "Enter" if any(answer in line for line in marked) else "Down")
            time.sleep(0.3)

    def kill_what_runs(self) -> None:
        """Send SIGKILL to the program in the foreground and to all its children."""
        end(below(int(self.tmux("list-panes", "-F", "#{pane_pid}"))))
        self.until(lambda: "Killed" in self.screen())


def record(place: Path) -> list[Frame]:
    """Play the session, and return its frames."""
    bed = Bed(place, cache.programs())
    project = Project(bed, bed.home / "calc")
    project.leftoff("install", "claude")
    (bed.home / ".claude").mkdir(exist_ok=True)
    (bed.home / ".claude" / "settings.json").write_text(json.dumps(SETTINGS))
    shell = Shell(project)
    try:
        return _scenes(bed, project, shell, AGENTS["claude"])
    finally:
        shell.tmux("kill-server")
        bed.close()


def _scenes(bed: Bed, project: Project, shell: Shell, claude: Agent) -> list[Frame]:
    frames: list[Frame] = []

    def shoot(name: str, caption: str, seconds: float, told: str = "") -> None:
        shown = shell.screen(colours=True).replace(str(bed.home), "/home/ada")
        shown = shown.replace("⎿", "└").replace("⏵⏵", "»")  # few fonts have the first ones
        frames.append(Frame(name, caption, seconds, shown, told))

    planned = dict.fromkeys(STEPS, "pending")
    read = {**planned, STEPS[0]: "completed", STEPS[1]: "in_progress"}
    half = {**read, STEPS[1]: "completed", STEPS[2]: "in_progress"}
    write = claude.write(str(project.folder / "src" / "tokens.py"), "NUMBER, NAME, PLUS, TIMES = range(4)\n")
    made = claude.lists(planned)
    bed.model.script(
        *flat(made, claude.lists(read, planned), Answer(calls=(write,)), claude.lists(half, read)),
        Answer("The tokens are ported. Next is the grammar.", waits=True),
    )
    shell.until(lambda: "$" in shell.screen())
    shell.types(f'claude "{TASK}"')
    shoot("task", "Claude Code gets a task", 1.2)
    shell.enter()
    shell.until(lambda: bool(bed.model.main))
    bed.model.wait_for_wait()
    shell.until(lambda: "◼ Port the grammar" in shell.screen())
    shoot("working", "Two of four steps are done, the third has begun …", 2.0)
    shell.kill_what_runs()
    shoot("killed", "… when it is killed: kill -9, out of memory, a power cut", 1.4)

    shell.tmux("send-keys", "C-l")
    shell.types("leftoff status")
    shell.enter()
    shell.until(lambda: "PROGRESS" in shell.screen() and shell.screen().rstrip().endswith("$"))
    shell.types("leftoff show --steps")
    shell.enter()
    shell.until(lambda: "run-the-tests" in shell.screen() and shell.screen().rstrip().endswith("$"))
    shoot("status", "leftoff has recorded each step", 2.6)
    shell.tmux("send-keys", "C-l")

    rest = {STEPS[2]: "in_progress", STEPS[3]: "pending"}
    ended = dict.fromkeys(rest, "completed")
    write = claude.write(str(project.folder / "src" / "grammar.py"), "def expression(): ...\n")
    bed.model.script(
        *flat(claude.lists(rest), Answer(calls=(write,)), claude.lists(ended, rest)),
        Answer("All four steps are done."),
    )
    shell.types("claude resume")
    shoot("resume", "A new session is asked to resume", 1.0)
    shell.enter()
    shell.until(lambda: "All four steps are done." in shell.screen() and "shift+tab" in shell.screen())
    told = next(text for request in bed.model.main for text in request.texts if BRIEF in text)
    shell.until(lambda: "Make auto mode" not in shell.screen() and " · done " in shell.screen())
    shoot(
        POSTER,
        "leftoff hands it the brief, and it continues with the third step",
        3.8,
        told[told.index(BRIEF) :],
    )
    return frames


# -- the drawing


def draw(frames: list[Frame]) -> str:
    """Return the frames as an SVG that shows one after the other. It needs no font or script from elsewhere."""
    length = sum(frame.seconds for frame in frames)
    rows = max(Text.from_ansi(frame.shown).plain.rstrip().count("\n") for frame in frames) + 2
    width, height = COLUMNS * CHAR + 2 * EDGE, rows * LINE + HEAD + FOOT
    rules, groups, begin = [], [], 0.0
    for frame in frames:
        first, last = 100 * begin / length, 100 * (begin + frame.seconds) / length
        begin += frame.seconds
        rules.append(
            f"@keyframes {frame.name} {{ 0%, {first:.2f}% {{ opacity: 0 }} {first + 0.01:.2f}%, {last - 0.01:.2f}% "
            f"{{ opacity: 1 }} {last:.2f}%, 100% {{ opacity: 0 }} }}\n"
            f"#{frame.name} {{ animation: {frame.name} {length:.1f}s step-end infinite }}"
        )
        still = "" if frame.name == POSTER else ' opacity="0"'
        bar = (
            f"M0 {height - FOOT:.0f}h{width:.0f}v{FOOT - 8}a8 8 0 0 1 -8 8h-{width - 16:.0f}a8 8 0 0 1 -8 -8z"
        )
        caption = f'<path d="{bar}" fill="{"#b3261e" if frame.name == "killed" else "#3949ab"}"/>'
        caption += (
            f'<text x="{width / 2}" y="{height - 17}" class="caption">{html.escape(frame.caption)}</text>'
        )
        groups.append(f'<g id="{frame.name}"{still}>{_terminal(frame)}{_panel(frame, width)}{caption}</g>')
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" xml:space="preserve">
<title>{html.escape(TITLE)}</title>
<style>
text {{ font: 14px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre }}
.caption {{ font: 600 17px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #ffffff; text-anchor: middle }}
@media (prefers-reduced-motion: no-preference) {{
{chr(10).join(rules)}
}}
</style>
<rect width="{width:.0f}" height="{height:.0f}" rx="8" fill="#1b1e24"/>
<g fill="#565c66"><circle cx="20" cy="17" r="5"/><circle cx="38" cy="17" r="5"/><circle cx="56" cy="17" r="5"/></g>
{chr(10).join(groups)}
</svg>
"""


def _terminal(frame: Frame) -> str:
    """Draw a screen: a text element for each piece of a line that has one style."""
    out = []
    for row, line in enumerate(Text.from_ansi(frame.shown).split("\n")):
        column = 0
        for piece in line.render(Console(file=StringIO(), color_system="truecolor", width=COLUMNS)):
            style, cells = piece.style or Style(), cell_len(piece.text)
            x, y = EDGE + column * CHAR, HEAD + (row + 1) * LINE
            column += cells
            ink, paper = _colour(style.color, "#d7dae0"), _colour(style.bgcolor, "")
            if style.reverse:
                ink, paper = paper or "#1b1e24", ink
            if paper:
                size = f'width="{cells * CHAR:.1f}" height="{LINE}"'
                out.append(f'<rect x="{x:.1f}" y="{y - 14}" {size} fill="{paper}"/>')
            if piece.text.strip():
                weight = ' font-weight="bold"' if style.bold else ""
                dim = ' opacity="0.6"' if style.dim else ""
                out.append(
                    f'<text x="{x:.1f}" y="{y}" textLength="{cells * CHAR:.1f}" fill="{ink}"{weight}{dim}>'
                    f"{html.escape(piece.text)}</text>"
                )
    return "".join(out)


def _panel(frame: Frame, width: float) -> str:
    """Draw what leftoff told the session, as a note on top of the terminal."""
    if not frame.told:
        return ""
    lines = ["leftoff gives it the brief:", *_abridged(frame.told)]
    left, top, high = width - 47 * CHAR - EDGE, HEAD + 11.5 * LINE, len(lines) * LINE + 18
    box = f'<rect x="{left:.1f}" y="{top}" width="{47 * CHAR:.1f}" height="{high}" rx="6" fill="#f4f5fb"/>'
    for row, line in enumerate(lines):
        style = ' fill="#3949ab" font-weight="bold"' if row == 0 else ' fill="#20242c"'
        box += f'<text x="{left + 12:.1f}" y="{top + 20 + row * LINE}"{style}>{html.escape(line)}</text>'
    return box


def _abridged(brief: str) -> list[str]:
    """Return the brief's lines on the task, what happened and the steps, wrapped."""
    kept = [line for line in brief.splitlines() if line.startswith(("Task", "Claude Code", "Changed", "["))]
    return [part for line in kept for part in textwrap.wrap(line, 44, subsequent_indent="    ")]


def _colour(colour: Color | None, default: str) -> str:
    if colour is None or colour.is_default:
        return default
    return colour.get_truecolor(MONOKAI).hex


def words_of(svg: str) -> str:
    """Return the text of a picture, piece by piece."""
    return html.unescape("\n".join(re.findall(r"<text [^>]*>([^<]*)</text>", svg)))


def main(words: list[str]) -> int:
    cache.programs()
    namespace.enter(words, "tools.pictures")
    place = cache.cache() / "pictures"
    PICTURE.write_text(draw(record(place)))
    shutil.rmtree(place, ignore_errors=True)  # what was killed may still write
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
