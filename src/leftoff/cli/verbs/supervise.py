"""``leftoff supervise``: watch all runs, tell what changes, and restart what died."""

from __future__ import annotations

from leftoff.cli.options import Opt, Spec
from leftoff.cli.render.text import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.engine.read.info import RunInfo
    from leftoff.engine.read.watch import Change
    from leftoff.operations.watching.supervision import Supervision

SPEC = Spec(
    "supervise",
    "Watch all runs of the store and report each change once: a run goes quiet, stalls, dies, waits for a "
    "person, is blocked, fails or ends. [supervise] in leftoff.toml can run a command or post to a URL "
    "for each.\n\n"
    "With --restart, runs of workflow files whose driver died are resumed if nothing stands in the way, "
    "with growing pauses.",
    options=(
        Opt("--once", None, "look once, report what changed since the last look, and exit"),
        Opt("--restart", None, "resume runs that died, where the verdict is resume or warn"),
    ),
    examples="""  leftoff supervise
  leftoff supervise --once --json         from cron
  leftoff supervise --restart""",
)

URL_S = 10.0
COMMAND_S = 60.0


def run(args: Args, ctx: Context) -> int:
    from leftoff.operations.watching.supervision import Supervision

    supervision = Supervision(ctx.project, ctx.caller)
    watch = Watch(ctx, supervision, restart=bool(args.restart) or supervision.settings.restart)
    if args.once:
        watch.look()
        _end(ctx)
        return 0
    from time import sleep

    ctx.say("leftoff: watching; Ctrl-C ends it.")
    try:
        while True:
            watch.look()
            sleep(supervision.settings.every)
    except KeyboardInterrupt:
        _end(ctx)
        return 130


def _end(ctx: Context) -> None:
    """The last event: the run that something happened in last."""
    if ctx.args.json:
        from leftoff.operations.run_list import Wanted, list_runs

        newest = list_runs(ctx.project, Wanted(limit=1)).runs
        ctx.emit({"event": "end", "run": newest[0].to_json() if newest else None})


class Watch:
    """Looks, tells, restarts."""

    def __init__(self, ctx: Context, supervision: Supervision, *, restart: bool) -> None:
        self.ctx = ctx
        self.supervision = supervision
        self.settings = supervision.settings
        self.restart = restart

    def look(self) -> None:
        for change in self.supervision.changes():
            self._tell(change)
        for info in self.supervision.dead() if self.restart else ():
            self._consider(info)
        self.supervision.save()

    # -- telling

    def _tell(self, change: Change) -> None:
        if self.ctx.args.json:
            self.ctx.emit(change.to_json())
        else:
            self.ctx.out(f"{change.to_json()['at'][:19]}Z  {clean(change.message)}")
        if self.settings.command:
            self._run_command(change)
        if self.settings.url:
            self._post(change)

    def _run_command(self, change: Change) -> None:
        import json
        import subprocess

        document = json.dumps(change.to_json())
        run_id = str(change.run["run_id"])
        about = {"LEFTOFF_EVENT": change.event, "LEFTOFF_MESSAGE": change.message, "LEFTOFF_RUN": run_id}
        assert self.settings.command is not None
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", self.settings.command],
                cwd=self.ctx.project.folder,
                env=self.ctx.caller.environment(about),
                input=document,
                text=True,
                timeout=COMMAND_S,
            )
            if done.returncode != 0:
                self.ctx.say(f"leftoff: the command of [supervise] ended with {done.returncode}.")
        except (OSError, subprocess.SubprocessError) as error:
            self.ctx.say(f"leftoff: the command of [supervise] could not be run: {error}")

    def _post(self, change: Change) -> None:
        import json
        from urllib.request import Request, urlopen

        body = json.dumps(change.to_json()).encode()
        assert self.settings.url is not None
        try:
            request = Request(self.settings.url, body, {"Content-Type": "application/json"})
            with urlopen(request, timeout=URL_S):
                pass
        except (OSError, ValueError) as error:
            self.ctx.say(f"leftoff: {self.settings.url} could not be told: {error}")

    # -- restarting

    def _consider(self, info: RunInfo) -> None:
        """Resume a dead run, unless something stands in the way; why is said once."""
        found = self.supervision.consider(info)
        if found.resumes:
            change = self.supervision.restarted(info)
            self._resume(info.run_id)
            self._tell(change)
        elif found.why:
            self.ctx.say(f"leftoff: {info.run_id} is not restarted: {clean(found.why)}.")

    def _resume(self, run_id: str) -> None:
        from leftoff.operations.execution.detached import resume_apart

        resume_apart(self.ctx.project, self.ctx.caller, [run_id], "supervise.log")
