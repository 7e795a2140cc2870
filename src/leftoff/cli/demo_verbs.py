"""Show in ten seconds what leftoff does: demo.

A workflow of five steps runs in its own process, is killed in the third, and is started again. Nothing in the
workflow knows that. Each step also appends its name to a plain file, which shows how often it ran. This module is
that process, too: ``python -m leftoff.cli.demo_verbs``.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from subprocess import PIPE, Popen
from typing import Any

import leftoff
from leftoff.cli.context import Context
from leftoff.cli.options import Args
from leftoff.cli.screen import Screen
from leftoff.cli.text import Line
from leftoff.engine.settings import CALLER
from leftoff.host import python

STEPS = ["fetch", "clean", "analyse", "draft", "publish"]
KILLED_IN = "analyse"
RAN = "ran.txt"
STEP_S = 0.4


def weekly_report() -> None:
    """The workflow, as anyone would write it."""
    with leftoff.run("weekly-report", title="Weekly report", steps=STEPS) as run:
        for number, name in enumerate(STEPS, start=1):
            if run.done(name):
                print(f"{name}: done before, not run again", flush=True)
                continue
            with run.step(name):
                with open(RAN, "a", encoding="ascii") as ran:
                    ran.write(f"{name}\n")
                print(f"{name}: running", flush=True)
                time.sleep(STEP_S)
                run.variables["pages"] = number * 10


def run_demo(args: Args, ctx: Context) -> int:
    if args.serve:
        from leftoff.cli.serve_verbs import need_page

        need_page()  # before the user waits for it
    with tempfile.TemporaryDirectory(prefix="leftoff-demo-") as folder:
        story = Story(folder, ctx.project.now, quiet=args.json)
        facts = story.tell()
        if args.json:
            ctx.emit(facts)
        if not facts["ok"]:
            ctx.say(
                f"leftoff: that is not how it should have gone: {facts}\nPlease report it, with this line."
            )
            return 1
        quiet = ["--json"] if args.json else []
        return story.call(*quiet, "serve", "--port", "0", "--open") if args.serve else 0


class Story:
    """The demo in a temporary folder. ``quiet``: only its facts are wanted."""

    def __init__(self, folder: str, now: int, *, quiet: bool) -> None:
        self.folder = folder
        self.store = os.path.join(folder, ".leftoff")
        self.quiet = quiet
        self.screen = Screen(sys.stdout, now)

    def tell(self) -> dict[str, Any]:
        """Play it part by part; return what happened, and whether that is what should have."""
        self._part("1", "A workflow of five steps starts. It is killed in the third: kill -9.")
        codes = [self._workflow(kill_in=KILLED_IN)]
        self._part("2", "What is on disk now. Two steps are safe; the third was interrupted half way.")
        self._command("show", "weekly-report", "--steps")
        self._part("3", "The same program is started again. It continues where it left off.")
        codes.append(self._workflow())
        self._part("4", "How often each step ran, by a plain file that the steps wrote themselves.")
        with open(os.path.join(self.folder, RAN), encoding="ascii") as file:
            ran = file.read().split()
        for name in STEPS:
            times = ran.count(name)
            self._show(
                [[("   ", ""), (f"{name:<8}", ""), (f"  {times} time{'s' if times > 1 else ''}", "dim")]]
            )
        self._part("5", "Every finished step saved a checkpoint.")
        self._command("history", "weekly-report")
        self._part("6", "Any two can be compared, and you can go back to any of them.")
        self._command("diff", "weekly-report~1", "weekly-report~0")
        self._part("", "fetch and clean were finished before the kill, so they never ran again.")
        hint = "`leftoff help` lists the verbs; `leftoff init` gets a project of yours started."
        page = "`leftoff demo --serve` shows it in a browser, `leftoff serve` your own runs."
        self._show([[(hint, "dim")], [(page, "dim")]])
        with leftoff.open(self.store) as store:
            run = store.get("weekly-report")
            sealed = [version.to_json() for version in reversed(run.history())]
            status = run.status
        expected = ["fetch", "clean", "analyse", "analyse", "draft", "publish"]
        ok = ran == expected and codes == [-signal.SIGKILL, 0] and status == "completed"
        facts = {"ok": ok, "killed_in": KILLED_IN, "ran": ran}
        return {**facts, "run_id": run.id, "status": status, "checkpoints": sealed}

    def call(self, *words: str) -> int:
        """Call one of leftoff's own verbs for the demo's project."""
        from leftoff.cli import main

        return main(["--project", self.folder, "--store", self.store, *words])

    def _workflow(self, kill_in: str | None = None) -> int:
        """Run the workflow in its own process, and kill that as soon as the given step runs; its exit code."""
        # Ours, but it never writes into your projects.
        kept = {
            name: value for name, value in CALLER.environment().items() if not name.startswith("LEFTOFF_")
        }
        env = {**kept, "LEFTOFF_PROJECT": self.folder}
        command = python("leftoff.cli.demo_verbs")
        child = Popen(command, cwd=self.folder, env=env, stdout=PIPE, stderr=PIPE, text=True)
        assert child.stdout is not None
        try:
            for line in map(str.rstrip, child.stdout):
                name, _, what = line.partition(": ")
                self._show(
                    [[("   ", ""), (f"{name:<8}", ""), (f"  {what}", "busy" if what == "running" else "dim")]]
                )
                if line == f"{kill_in}: running":
                    os.kill(child.pid, signal.SIGKILL)
                    self._show([[("   ", ""), ("kill -9 ", "bad"), (f"  process {child.pid}", "dim")]])
        finally:
            child.kill()  # Ctrl-C, or a reader that had enough
            wrong = child.communicate()[1]
            if child.returncode not in (0, -signal.SIGKILL):
                sys.stderr.write(wrong)
        return child.returncode

    def _part(self, number: str, text: str) -> None:
        self._show([[], [(f"{number}  " if number else "", "id"), (text, "title")]])

    def _show(self, lines: list[Line]) -> None:
        if not self.quiet:
            self.screen.show(lines)

    def _command(self, *words: str) -> None:
        if not self.quiet:
            self._show([[(f"$ leftoff {' '.join(words)}", "dim")]])
            self.call(*words)


if __name__ == "__main__":
    weekly_report()
