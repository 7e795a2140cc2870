"""Get started: init, demo, help, completion."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

from leftoff.cli.context import Context
from leftoff.cli.options import Args
from leftoff.cli.text import Line
from leftoff.cli.verbs import SAME, VERBS
from leftoff.engine.config.caller import CALLER
from leftoff.errors import NotFound, Usage
from leftoff.host import python
from leftoff.operations.store_upkeep import Initialized

# -- init


_TOML = """\
# leftoff.toml: what differs from the defaults (docs/settings.md)
[redaction]
names = []                    # more names whose values are secret

[heartbeat]
stalled = "30m"               # without a sign of life for so long, a run is shown as stalled
"""
_FOR_AGENTS = """\
Report your progress with `leftoff` (`leftoff help`): `{starts}` first, then
`leftoff step start` and `leftoff step done` for each step, and `leftoff note` for the next one at work.
After an interruption, `leftoff brief` says where you were.
"""


def run_init(args: Args, ctx: Context) -> int:
    from leftoff.operations.store_upkeep import init_project

    done = init_project(ctx.project, args.dialect, utilities=bool(args.utils))
    ignore = "\n".join([*([f"{done.inside}/"] if done.inside else []), *done.ignored])
    if args.json:
        suggestions = {
            "leftoff.toml": _TOML,
            ".gitignore": ignore,
            "agents": _FOR_AGENTS.format(starts=done.starts),
        }
        where = {"project": ctx.project.folder, "store": done.store, "created": done.created}
        ctx.emit({**where, "suggestions": suggestions, "dialect": args.dialect, "written": [*done.written]})
    else:
        ctx.out(_init_page(ctx, done, ignore))
    return 0


def _init_page(ctx: Context, done: Initialized, ignore: str) -> str:
    lines = [f"{done.store}: {'created' if done.created else 'already there, unchanged'}."]
    lines += [f"{path}: written." for path in done.written]
    if not os.path.exists(os.path.join(ctx.project.folder, "leftoff.toml")):
        lines += ["", "Settings, if you want any, go into leftoff.toml:", "", *_indented(_TOML)]
    if ignore:
        itself = "The store ignores itself in git; to say so in " if done.inside else ""
        lines += ["", f"{itself or 'For '}your own .gitignore:", "", *_indented(ignore)]
    lines += [
        "",
        "For your agents (CLAUDE.md, AGENTS.md):",
        "",
        *_indented(_FOR_AGENTS.format(starts=done.starts)),
    ]
    if not done.shows_all:
        lines += ["", f"Its files show the runs of {done.dialect}; other runs are in the store alone."]
    lines += ["", f"Then: `{done.starts}` begins a run, `leftoff status` shows what there is."]
    return "\n".join(lines)


def _indented(text: str) -> list[str]:
    return [f"    {line}".rstrip() for line in text.rstrip("\n").split("\n")]


# -- demo

KILLED_IN = "analyse"


def run_demo(args: Args, ctx: Context) -> int:
    import tempfile

    if args.serve:
        from leftoff.cli.verbs.serve_verbs import need_page

        need_page()  # before the user waits for it
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
        from leftoff.cli.screen import Screen

        self.folder = folder
        self.store = os.path.join(folder, ".leftoff")
        self.quiet = quiet
        self.screen = Screen(sys.stdout, now)
        self.lines: list[list[str]] = []  # what the workflow said, each time it ran
        self.codes: list[int] = []

    def tell(self) -> None:
        from leftoff.cli.demo_flow import STEPS

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

        command = python("leftoff.cli.demo_flow")
        child = Popen(command, cwd=self.folder, env=self.environment(), stdout=PIPE, stderr=PIPE, text=True)
        said: list[str] = []
        self.lines.append(said)
        try:
            for line in _lines_of(child):
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
        from leftoff.cli.demo_flow import RAN

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


def _lines_of(child: Any) -> Iterator[str]:
    for line in child.stdout:
        yield line.rstrip("\n")
    child.stdout.close()


# -- help


def run_help(args: Args, ctx: Context) -> int:
    from leftoff.cli.explain import explain, no_verb

    word = ctx.word
    verb = SAME.get(word, word) if word is not None else None
    if word is not None and verb not in VERBS:
        raise no_verb(word)
    return explain(verb, as_json=args.json, every=args.all)


# -- completion

_MOST_WORDS = 100


def run_completion(args: Args, ctx: Context) -> int:
    wanted = args.rest[0]
    if wanted in ("runs", "steps"):  # asked by the scripts themselves, whenever Tab is pressed
        found = _run_words(ctx) if wanted == "runs" else _step_words(ctx)
        if found:
            ctx.out("\n".join(found))
        return 0
    from leftoff.cli.completion import SHELLS, completion_script

    if wanted not in SHELLS:
        raise Usage(f"There is no completion for {wanted!r}.", hint="It is for bash, zsh or fish.")
    script = completion_script(wanted)
    if args.json:
        ctx.emit({"shell": wanted, "script": script})
    else:
        ctx.out(script.rstrip("\n"))
    return 0


def _run_words(ctx: Context) -> list[str]:
    """The newest runs by id, and the words that name one."""
    from leftoff.operations.runs import list_project_runs

    found = list_project_runs(ctx.project, limit=_MOST_WORDS).runs
    return [*(run.run_id for run in found), "latest"] if ctx.project.store.exists() else []


def _step_words(ctx: Context) -> list[str]:
    """The steps of the current run, those left out that a shell might take for more than a word."""
    from leftoff.operations.runs import step_names

    try:
        found = step_names(ctx.project, ctx.caller)
    except (NotFound, Usage):
        return []
    return [step for step in found if all(c.isalnum() or c in "._-/%+@" for c in step)][:_MOST_WORDS]
