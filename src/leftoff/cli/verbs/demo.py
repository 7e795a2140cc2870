"""``leftoff demo``: a workflow dies of SIGKILL half way and goes on where it was, explained as it happens."""

from __future__ import annotations

import os
import signal
import sys

from leftoff.cli.options import Opt, Spec
from leftoff.engine.config.caller import CALLER
from leftoff.host import python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.cli.render.text import Line

SPEC = Spec(
    "demo",
    "Run a workflow of five steps, kill it with SIGKILL in the third, resume it, and look at what was "
    "kept. It takes a few seconds, works in a temporary folder and leaves nothing behind. With --serve it is "
    "shown in your browser afterwards, until Ctrl-C.",
    options=(Opt("--serve", None, "show it in a browser afterwards (needs the extra `web`)"),),
    examples="""  leftoff demo
  leftoff demo --serve    and open the page
  leftoff demo --json     what happened, for a program""",
)
KILLED_IN = "analyse"


def run(args: Args, ctx: Context) -> int:
    import tempfile

    if args.serve:
        from leftoff.cli.verbs.serve import need_page

        need_page()  # before anybody waits for it
    with tempfile.TemporaryDirectory(prefix="leftoff-demo-") as folder:
        story = Story(folder, ctx.project.now, quiet=args.json)
        story.tell()
        facts = story.facts()
        if args.json:
            ctx.emit(facts)
        if not facts["ok"]:
            ctx.say(
                f"leftoff: that is not how it should have gone: {facts}\nPlease report it, with this line."
            )
            return 1
        return story.serve() if args.serve else 0


class Story:
    """The demo, part by part."""

    def __init__(self, folder: str, now: int, *, quiet: bool) -> None:
        from leftoff.cli.render.screen import stdout

        self.folder = folder
        self.store = os.path.join(folder, ".leftoff")
        self.quiet = quiet
        self.screen = stdout(now)
        self.lines: list[list[str]] = []  # what the workflow said, each time it ran
        self.codes: list[int] = []

    def tell(self) -> None:
        from leftoff.cli.verbs.demo_flow import STEPS

        self.part("1", "A workflow of five steps starts. It is killed in the third: kill -9.")
        self.workflow(kill_in=KILLED_IN)
        self.part("2", "What is on disk now. Two steps are safe; the third was cut off half way.")
        self.command("show", "weekly-report", "--steps")
        self.part("3", "The same program is started again. It continues where it left off.")
        self.workflow()
        self.part("4", "How often each step ran, by a plain file that the steps wrote themselves.")
        for name in STEPS:
            times = self.ran().count(name)
            self.say([(f"{name:<8}", ""), (f"  {times} time{'s' if times > 1 else ''}", "dim")])
        self.part("5", "Every finished step saved a checkpoint.")
        self.command("log", "weekly-report")
        self.part("6", "Any two can be compared, and you can go back to any of them.")
        self.command("diff", "weekly-report~1", "weekly-report~0")
        self.part("", "fetch and clean were finished before the kill, so they never ran again.")
        self.show(
            [
                [("`leftoff help` lists the verbs; `leftoff init` gets a project of yours started.", "dim")],
                [
                    (
                        "`leftoff demo --serve` shows it in a browser, `leftoff serve` your own runs.",
                        "dim",
                    )
                ],
            ]
        )

    def serve(self) -> int:
        """The page of it, until Ctrl-C."""
        from leftoff.cli import main

        quiet = ["--json"] if self.quiet else []
        return main(
            [*quiet, "--project", self.folder, "--store", self.store, "serve", "--port", "0", "--open"]
        )

    # -- what happens

    def workflow(self, kill_in: str | None = None) -> None:
        """Run the workflow in a process of its own, and kill that as soon as the given step runs."""
        from subprocess import PIPE, Popen

        command = python("leftoff.cli.verbs.demo_flow")
        child = Popen(command, cwd=self.folder, env=self.environment(), stdout=PIPE, stderr=PIPE, text=True)
        said: list[str] = []
        self.lines.append(said)
        try:
            for line in _lines(child):
                said.append(line)
                name, _, what = line.partition(": ")
                self.say([(f"{name:<8}", ""), (f"  {what}", "busy" if what == "running" else "dim")])
                if line == f"{kill_in}: running":
                    os.kill(child.pid, signal.SIGKILL)
                    self.say([("kill -9 ", "bad"), (f"  process {child.pid}", "dim")])
        finally:
            child.kill()  # Ctrl-C, or a reader that had enough
            wrong = child.communicate()[1]
            self.codes.append(child.returncode)
            if child.returncode not in (0, -signal.SIGKILL):
                sys.stderr.write(wrong)

    def environment(self) -> dict[str, str]:
        """Ours, but it never writes into a project of yours."""
        kept = {
            name: value for name, value in CALLER.environment().items() if not name.startswith("LEFTOFF_")
        }
        return {**kept, "LEFTOFF_PROJECT": self.folder}

    def ran(self) -> list[str]:
        from leftoff.cli.verbs.demo_flow import RAN

        with open(os.path.join(self.folder, RAN), encoding="ascii") as file:
            return file.read().split()

    def facts(self) -> dict[str, Any]:
        """What happened, and whether that is what should have."""
        import leftoff

        with leftoff.open(self.store) as store:
            run = store.get("weekly-report")
            sealed = [version.to_json() for version in reversed(run.history())]
            status = run.status
        ran = self.ran()
        expected = ["fetch", "clean", "analyse", "analyse", "draft", "publish"]
        ok = ran == expected and self.codes == [-signal.SIGKILL, 0] and status == "completed"
        return {
            "ok": ok,
            "killed_in": KILLED_IN,
            "ran": ran,
            "run_id": run.id,
            "status": status,
            "checkpoints": sealed,
        }

    # -- how it looks

    def part(self, number: str, text: str) -> None:
        self.show([[], [(f"{number}  " if number else "", "id"), (text, "title")]])

    def say(self, line: Line) -> None:
        self.show([[("   ", ""), *line]])

    def show(self, lines: list[Line]) -> None:
        if not self.quiet:
            self.screen.show(lines)

    def command(self, *words: str) -> None:
        """One of leftoff's own verbs, as a person would call it."""
        if self.quiet:
            return
        from leftoff.cli import main

        self.show([[(f"$ leftoff {' '.join(words)}", "dim")]])
        main(["--project", self.folder, "--store", self.store, *words])


def _lines(child: Any) -> Iterator[str]:
    for line in child.stdout:
        yield line.rstrip("\n")
    child.stdout.close()
