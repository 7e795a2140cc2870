"""Driving a run from the command: who watches, who answers, which signals end it. For `run` and `resume`."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager

from leftoff.cli.arguments import positive
from leftoff.cli.prompts.ask import answer, can_ask, confirm
from leftoff.engine.resume.finding import ASK, CODES, NEVER_YES, REFUSE, WARN, levels_of
from leftoff.errors import CannotResume, NeedsPerson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.cli.progress import Observer
    from leftoff.engine.redaction.redactor import Redactor
    from leftoff.engine.workspace.tracking import Found
    from leftoff.store.rows import RunRow
    from leftoff.workflow.definition.model import Workflow
    from leftoff.workflow.run.runner import Runner, Setting

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Questions:
    """What must be asked before a run goes on: answered by --accept, by --yes, or by the person at the terminal.

    ``levels``: how bad the project finds what.
    """

    def __init__(self, ctx: Context, accepted: Iterable[str]) -> None:
        self._ctx = ctx
        self._accepted = frozenset(accepted)
        self.levels = levels_of(ctx.settings.section("verify"))

    def level(self, code: str) -> str:
        """How bad a finding is by now: one that was accepted is worth a word."""
        level = self.levels.get(code, CODES[code])
        return WARN if level == ASK and code in self._accepted else level

    def __call__(self, code: str, what: str, hint: str) -> bool:
        if code in self._accepted:
            return True
        if code in NEVER_YES and not can_ask(self._ctx):
            raise NeedsPerson(what, hint=hint)
        if code == "variables.redacted":
            return False
        if code in NEVER_YES:
            return answer(f"{what} Run it again? [y/N]: ", hint).lower() in ("y", "yes")
        return confirm(self._ctx, what, hint=hint)


def secrets_of(ctx: Context, workflow: Workflow, ask: Questions) -> dict[str, str]:
    """The secrets that a workflow names, from the environment; asked for where somebody can answer."""
    found = {name: os.environ[name] for name in workflow.secrets if os.environ.get(name)}
    absent = [name for name in workflow.secrets if name not in found]
    level = ask.level("variables.redacted")
    if absent and (level == REFUSE or (level == ASK and not can_ask(ctx))):
        raise (CannotResume if level == REFUSE else NeedsPerson)(
            f"The workflow needs secrets that are not in the environment: {', '.join(absent)}.",
            hint=f"Secrets are never stored. Set {absent[0]} in the environment, then try again.",
        )
    for name in absent if level == ASK else ():
        from getpass import getpass

        found[name] = getpass(f"{name} (not stored): ", sys.stderr)
    return found


def check_requirements(ctx: Context, workflow: Workflow, ask: Questions, *, fresh: bool = False) -> None:
    """Tools, variables and paths that the workflow says it needs; agents. ``fresh``: nothing of it is done yet."""
    from leftoff.workflow.run.actions import action_of
    from leftoff.workflow.run.runner import missing

    if workflow.has("agent"):
        from leftoff.agents.headless.action import check, register

        check(workflow, ctx.project.folder, prompts=fresh)
        register(ctx.project.folder)
    for step in workflow.leaves():
        if step.kind not in ("approval", "manual"):
            action_of(step)  # one that cannot be executed is known before anything starts
    found, level = missing(workflow, ctx.project.folder), ask.level("prerequisite.missing")
    what = f"The workflow needs what is not there: {'; '.join(found)}."
    hint = "Provide it, or go on all the same with --yes."
    if found and level == REFUSE:
        raise CannotResume(what, hint="Provide it.")
    if found and level == ASK and not ask("prerequisite.missing", what, hint):
        raise NeedsPerson(what, hint=hint)


def attempts_folder(ctx: Context) -> str:
    """The folder in which `attempts/` is: the store's, where it has one on this machine."""
    return getattr(ctx.store, "folder", None) or os.path.join(ctx.project.folder, ".leftoff")


def setting_of(
    ctx: Context, workflow: Workflow, observer: Observer, ask: Questions, issue: str | None
) -> Setting:
    from leftoff.engine.config.project import git_branch
    from leftoff.engine.workspace.issues import take
    from leftoff.workflow.run.runner import Setting

    secrets = secrets_of(ctx, workflow, ask)
    redactor = redactor_of(ctx, secrets)
    return Setting(
        ctx.store,
        ctx.project.folder,
        attempts_folder(ctx),
        ctx.settings.redaction,
        redactor,
        ctx.project.clock,
        observer,
        ask,
        store_url=ctx.store.name,
        secrets=secrets,
        most=most_of(ctx),
        heartbeat=ctx.settings.heartbeat.interval,
        grace=ctx.settings.run.grace,
        restart=bool(getattr(ctx.args, "restart", None)),
        levels=ask.levels,
        seen=lambda: take(
            ctx.settings.section("issues"), ctx.project.folder, issue, git_branch(ctx.project.folder), ctx.now
        ),
        tree=_tree(ctx, redactor),
        who=f"leftoff {'run' if hasattr(ctx.args, 'graph') else 'resume'}",
    )


def _tree(ctx: Context, redactor: Redactor) -> Callable[[RunRow], Found]:
    """What a checkpoint says of files. Those with a secret of the workflow in them are only hashed."""
    from leftoff.engine.workspace.tracking import for_checkpoint

    return lambda row: for_checkpoint(ctx.project.workspace(redactor=redactor), row)


def most_of(ctx: Context) -> int | None:
    """How many steps may run at once, where that was said."""
    return positive(ctx.args.max_parallel, "--max-parallel")


def redactor_of(ctx: Context, secrets: dict[str, str]) -> Redactor:
    return ctx.settings.redactor(exact=tuple(value for value in secrets.values() if value))


def heeded() -> list[signal.Signals]:
    """The signals that end a run; not those that whoever started us wants ignored, as `nohup` does."""
    return [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def interruptible() -> Iterator[None]:
    """Until a run is driven there is nothing to settle: what asks for the end ends the command, as Ctrl-C does."""

    def end(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in heeded()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def drive(ctx: Context, runner: Runner, observer: Observer) -> int:
    """To the end; signals stop it in order. The last event has the run as it is then."""

    def heed(number: int, frame: object) -> None:
        runner.driver.interrupt(number)

    for number in heeded():
        signal.signal(number, heed)
    code = runner.drive()
    observer({"event": "end", "run": _run(ctx, runner), "exit": code})
    return code


def _run(ctx: Context, runner: Runner) -> dict[str, Any]:
    from leftoff.engine.read.info import run_info

    found = run_info(ctx.store, runner.ledger.run, ctx.now, ctx.limits)
    assert found is not None
    return dict(found.to_json())
