"""What `run` and `resume` show while they work: live on a terminal, a line per event in a pipe, JSON for programs."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from leftoff.cli.events import (
    GAP_S,
    MOST_LINES,
    LiveDisplay,
    Observer,
    PlainLines,
    Progress,
    advice,
    live_page,
    run_verdict,
    sentence,
)
from leftoff.cli.screen import plain
from leftoff.cli.text import width
from leftoff.clock import Clock
from tests.cli.command import environment
from tests.cli.events import (
    PLAYS,
    RUN,
    STEPS,
    Event,
    crowd,
    flood,
    play,
    run_document,
    stop,
    story,
)
from tests.cli.runs import harmless
from tests.cli.terminal import ESCAPES
from tests.seams import SEAMS

ROOT = Path(__file__).parents[2]


class Stopped(Clock):
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.second = 0.0

    def now(self) -> int:
        return 1_770_000_000_000 + int(self.second * 1000)

    def monotonic(self) -> float:
        return self.second


class Tty(io.StringIO):
    """A terminal that remembers what was written to it, and how often."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.writes.append(text)
        return super().write(text)

    @property
    def text(self) -> str:
        return ESCAPES.sub("", self.getvalue()).replace("\r", "")


@pytest.fixture(autouse=True)
def errors_of_our_own_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a person watches, they only end the display."""
    monkeypatch.setenv("LEFTOFF_DEBUG", "1")


@pytest.fixture
def clock() -> Stopped:
    """A clock of one's own."""
    return Stopped()


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Tty:
    """A terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    return Tty()


def feed(watcher: Observer, events: list[Event], clock: Stopped) -> None:
    """Tell it what happens, each event at its second."""
    for event in events:
        clock.second = event.pop("_second", clock.second)
        if event["event"] != "output" or watcher.wants_output:
            watcher(event)


def lines_at_bottom(known: Progress, now: float, columns: int = 79, rows: int = 40) -> list[str]:
    return plain(live_page(known, now, columns, rows)).splitlines()


# -- words


@pytest.mark.parametrize(
    ("status", "steps", "said"),
    [
        (
            "completed",
            {"total": 3, "completed": 2, "skipped": 1},
            "is completed: all 3 steps are done, in 7s",
        ),
        ("completed", {"total": 1, "completed": 1}, "is completed: its step is done, in 7s"),
        (
            "failed",
            {"total": 3, "completed": 1, "failed": 2},
            "has failed: 1 of 3 steps done, 2 failed, in 7s",
        ),
        ("failed", {"total": 1, "completed": 1}, "has failed: 1 of 1 steps done, in 7s"),
        ("paused", {"total": 3, "waiting": 1}, "is paused: 0 of 3 steps done, 1 waiting, in 7s"),
        ("completed", {}, "is completed: nothing to do, in 7s"),
    ],
)
def test_the_verdict(status: str, steps: dict[str, int], said: str) -> None:
    """What became of the run, in one line; and what to do next, unless it is completed.

    A failed run never says that all is done: a step may fail whose own steps were all reported as done.
    """
    known = Progress()
    known.feed({"event": "start", "run_id": RUN}, 0.0)
    end: Event = {"event": "end", "run": run_document(status, **steps)}
    assert f"{RUN} {said}" == run_verdict(end, known, 7.0)
    commands = [do for do, _ in advice(end, known)]
    assert (status == "completed") == (commands == [])
    assert (status == "failed") == (f"leftoff logs {RUN} --failed" in commands)


KINDS = (
    "start plan batch_start batch_complete phase step_start output step_done step_skipped step_failed step_stopped "
    "adopted reattached waiting foreach warning interrupt end"
).split()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_event_has_a_sentence(kind: str, clock: Stopped, screen: Tty) -> None:
    """On one line, also where little is known or all of it is hostile; an event of tomorrow is named."""
    evil = "x\x1b[31m\ny"
    full: Event = {
        "event": kind, "at": "2026-02-02T02:40:00.123Z", "run_id": evil, "step": evil, "title": evil, "text": evil,
        "message": evil, "ask": evil, "options": [evil], "how": evil, "why": evil, "signal": evil,
        "error": {"message": evil}, "tail": evil, "outputs": [evil], "from": evil, "to": evil, "trigger": evil,
        "checkpoint_id": evil, "plan": [{"step": evil, "action": "adopt", "why": evil}],
        "steps": [evil] if "batch" in kind else {}, "run": {"run_id": evil, "status": evil},
    }  # fmt: skip
    for event in (full, {"event": kind, "step": "s"}, {"event": "of_tomorrow"}):
        said = sentence(event, Progress(), 0.0)
        assert said and said.isprintable()
        live, line = LiveDisplay(screen, clock), PlainLines(io.StringIO(), clock)
        live(event)
        line(event)
        live.close()
    assert harmless(screen.text)


# -- a line per event


def test_a_line_per_event(clock: Stopped, capsys: pytest.CaptureFixture[str]) -> None:
    """With its time, but none for a checkpoint; what steps print is not asked for, but how a failed one ended is on
    stderr."""
    stream = io.StringIO()
    watcher = PlainLines(stream, clock)
    assert not watcher.wants_output and None is watcher.every
    events = [event for event in story() if event["event"] != "output"]
    number = len([event for event in events if event["event"] != "checkpoint"])
    feed(watcher, events, clock)
    watcher.close()
    lines = stream.getvalue().splitlines()
    assert number == len(lines)
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  \S", line) for line in lines)
    said = [line[22:] for line in lines]
    for sentence_ in (
        f"{RUN} started: 6 steps",
        "research: started (1 of 6), estimated 4s",
        "index: done in 2.5s → index.json",
        "implementation/convert: 7 items",
        "implementation/convert/page-2.pdf: failed, attempt 1: exit 1; again in 0.5s",
        "implementation/convert/page-2.pdf: failed, attempt 2: exit 1",
        "implementation/check: skipped: its condition does not hold",
        f"{RUN} has failed: 9 of 12 steps done, 1 failed, 1 waiting, in 9.6s",
    ):
        assert sentence_ in said
    err = capsys.readouterr().err
    assert "implementation/convert/page-2.pdf │ cannot read the xref table\n" in err
    assert 1 == err.count("xref") and f"leftoff approve {RUN} sign-off" in err


def test_a_terminal_without_colours_shows_what_is_printed(clock: Stopped) -> None:
    """With the step's name, and nothing that a terminal would obey."""
    tty = Tty()
    watcher = PlainLines(tty, clock)
    assert watcher.wants_output
    feed(watcher, stop(), clock)
    assert "step-1 │ half    tabbed\n" in tty.getvalue() and harmless(tty.getvalue())


# -- live


def test_a_line_for_each_running_step() -> None:
    """Its name, how long it runs, what it printed last; then how far the run is."""
    known = Progress()
    for event in story()[:10]:
        known.feed(event, event["_second"])
    assert [
        "● research  1.2s  reading page 3 of 6",
        "● index  1.2s  375 words",
        f"{'━' * 20} 0/6  0%  1.2s",
    ] == lines_at_bottom(known, 1.2)


def test_what_is_done_is_counted_once() -> None:
    """Items once they are known, and not their `foreach`; a retry is no failure."""
    known = Progress()
    for event in story()[:-1]:
        known.feed(event, event["_second"])
    assert (12, 9, 1) == (known.total, known.done, known.failed)
    assert {} == known.running and ["sign-off"] == list(known.waiting)


@pytest.mark.parametrize("columns", [15, 79, 160])
def test_it_fits(columns: int) -> None:
    """At any width, wide characters, long names, retries and failures included."""
    for name in ("story", "stop", "crowd"):
        known = Progress()
        for event in PLAYS[name]()[:150]:
            known.feed(event, event["_second"])
            drawn = plain(live_page(known, event["_second"], columns, 24))
            assert harmless(drawn)
            assert all(width(line) <= columns for line in drawn.splitlines())


def test_nothing_is_drawn_before_something_begins(clock: Stopped, screen: Tty) -> None:
    """Until then the terminal belongs to whoever asks a question."""
    watcher = LiveDisplay(screen, clock)
    watcher({"event": "start", "run_id": RUN, "steps": {**STEPS, "total": 6}})
    clock.second += 1
    watcher.tick()
    assert f"▸ {RUN} started: 6 steps\n" == screen.text


def test_what_scrolls_above(clock: Stopped, screen: Tty) -> None:
    """What steps print with their names, once, what ended and how, and at the end what to do next."""
    watcher = LiveDisplay(screen, clock)
    feed(watcher, story(), clock)
    text = screen.text
    for line in (
        "research │ reading page 6 of 6",
        "index │ 825 words",
        "✓ index: done in 2.5s → index.json",
        "↻ implementation/convert/page-2.pdf: failed, attempt 1: exit 1; again in 0.5s",
        "✗ implementation/convert/page-2.pdf: failed, attempt 2: exit 1\n  │ opening page-2.pdf\n  │ cannot read",
        "– implementation/check: skipped: its condition does not hold",
        "Approve docs/architecture.md? [approve, roundtable, reject] `leftoff approve",
        f"  leftoff resume {RUN}  continues from here",
    ):
        assert line in text
    assert text.index("reading page 6") < text.index("✓ research")


def test_what_a_failed_step_printed_is_shown_once(
    clock: Stopped, screen: Tty, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it printed it; at its end if it was not shown before."""
    start: Any = {"event": "step_start", "step": "bad", "attempt": 1}
    printed: Any = {"event": "output", "step": "bad", "text": "oops\n"}
    failed: Any = {"event": "step_failed", "step": "bad", "error": {"message": "exit 1"}, "tail": "oops\n"}
    for events in ([start, printed, failed], [start, failed]):
        stream, live = io.StringIO(), LiveDisplay(screen, clock)
        feed(PlainLines(stream, clock, output=True), events, clock)
        assert 1 == (stream.getvalue() + capsys.readouterr().err).count("oops")
        before = screen.text.count("oops")
        feed(live, events, clock)
        live.close()
        assert 1 == screen.text.count("oops") - before


def test_it_is_drawn_at_most_ten_times_a_second(clock: Stopped, screen: Tty) -> None:
    """However many events there are, and each drawing is one write."""
    watcher = LiveDisplay(screen, clock)
    feed(watcher, crowd(2000, seconds=0.01), clock)
    assert len(screen.writes) <= clock.second / GAP_S + 3
    assert all(text.startswith("\x1b[?2026h") and text.endswith("\x1b[?2026l") for text in screen.writes)
    assert "\x1b[?25l" not in screen.getvalue()  # the cursor stays: whoever is killed cannot bring it back


def test_time_passes_without_events(clock: Stopped, screen: Tty) -> None:
    """A tick moves the seconds."""
    watcher = LiveDisplay(screen, clock)
    assert 0 < watcher.every <= 0.5
    feed(watcher, story()[:4], clock)
    clock.second = 5.0
    watcher.tick()
    assert "● research  5s  Look around" in screen.text


def test_a_flood_is_counted_not_shown(clock: Stopped, screen: Tty) -> None:
    """As many lines as one can see in a drawing, the newest ones; how many were left out is said."""
    watcher = LiveDisplay(screen, clock)
    feed(watcher, flood(200_000), clock)
    text = screen.text
    hidden = sum(int(n.replace(",", "")) for n in re.findall(r"… ([\d,]+) lines not shown", text))
    assert 200_000 == hidden + text.count("work │ line")
    assert max(write.count("work │") for write in screen.writes) <= MOST_LINES + 1
    assert "line 199999 of 200000" in text


def final_screen(raw: str) -> list[str]:
    """The lines that stand on a terminal of any height at the end: cursor up, erase below, and text."""
    lines: list[str] = [""]
    at = 0
    for part in re.split(r"(\x1b\[\d+A|\x1b\[J|\n)", raw):
        up = re.fullmatch(r"\x1b\[(\d+)A", part)
        if up:
            at -= int(up[1])
        elif part == "\x1b[J":
            del lines[at + 1 :]
            lines[at] = ""
        elif part == "\n":
            at += 1
            lines += [""] * (at + 1 - len(lines))
        else:
            lines[at] += ESCAPES.sub("", part).replace("\r", "")
    return lines


# -- when nobody listens any more


def test_a_reader_that_left_ends_the_talk(clock: Stopped) -> None:
    """Nothing is raised, and nothing more is written."""

    class Gone(io.StringIO):
        tries = 0

        def write(self, text: str) -> int:
            Gone.tries += 1
            raise BrokenPipeError(32, "gone")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SEAMS["events.discard"], lambda fd: None)
        watcher = PlainLines(Gone(), clock)
        feed(watcher, story(), clock)
        watcher.close()
    assert 1 == Gone.tries


def test_an_error_of_our_own_ends_the_talk_only(
    clock: Stopped, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The work matters more; it is said once."""
    watcher = PlainLines(io.StringIO(), clock)
    with pytest.raises(KeyError):
        watcher({"event": "output"})
    monkeypatch.delenv("LEFTOFF_DEBUG")
    for _ in range(3):
        watcher({"event": "output"})
    watcher.close()
    assert 1 == capsys.readouterr().err.count("the run continues")


# -- as a process


def player(*words: str, **more: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.cli.events", *words], cwd=ROOT, env=environment(TERM="xterm"), **more
    )


def test_events_as_json() -> None:
    """One per line, whole, the last one the end; what steps print is not among them."""
    with player("story", "--json", "--fast", stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        found = [json.loads(line) for line in process.stdout]
    assert [event for _, event in play("story") if event["event"] != "output"] == found
    assert "end" == found[-1]["event"] and RUN == found[-1]["run"]["run_id"]


def test_a_pipe_needs_no_rich() -> None:
    """Neither for lines nor for JSON: it would cost more than all the rest."""
    code = (
        "import sys, tests.cli.events as events\n"
        "events.main('story')\n"
        "assert 'rich' not in sys.modules, 'rich was imported'"
    )
    for words in (["--fast"], ["--fast", "--json"]):
        command = [sys.executable, "-c", code, *words]
        done = subprocess.run(
            command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=60
        )
        assert 0 == done.returncode, done.stderr


def test_a_reader_that_left_is_no_error() -> None:
    """`| head -1`: the rest goes nowhere, without a word."""
    done = subprocess.run(
        f"{sys.executable} -m tests.cli.events story --fast | head -1",
        shell=True, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert f"{RUN} started: 6 steps" in done.stdout and "rror" not in done.stderr


def test_on_a_real_terminal() -> None:
    """It chooses to be live by itself, in colours, and leaves each line once."""
    columns = 100
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    with player("story", "--brisk", stdin=slave, stdout=slave, stderr=slave) as process:
        os.close(slave)
        raw, until = b"", time.monotonic() + 60
        while time.monotonic() < until:
            try:
                block = os.read(master, 65536)
            except OSError:
                break
            raw += block
        assert 0 == process.wait()
    os.close(master)
    text = raw.decode().replace("\r\n", "\n")
    assert "\x1b[32m" in text
    shown = final_screen(text)
    assert 1 == sum("✓ research: done in 3.2s" in line for line in shown)
    assert not any(line.startswith(("●", "━")) for line in shown)
    drawn = [
        line for line in ESCAPES.sub("", text).replace("\r", "\n").splitlines() if line.startswith(("●", "━"))
    ]
    assert drawn and max(map(width, drawn)) < columns
