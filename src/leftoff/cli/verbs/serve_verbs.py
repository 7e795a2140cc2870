"""Watch all runs until Ctrl-C: serve, supervise."""

from __future__ import annotations

import secrets
import webbrowser
from typing import Any

from leftoff.cli.context import Context
from leftoff.cli.options import Args
from leftoff.cli.text import clean
from leftoff.engine.config.project import find_project
from leftoff.engine.read.attention import RunChange
from leftoff.engine.read.info import RunInfo
from leftoff.errors import Unsupported, Usage
from leftoff.operations.runs import list_project_runs
from leftoff.operations.store_upkeep import projects_beside
from leftoff.operations.supervision import Supervision, start_resume

# -- serve


def run_serve(args: Args, ctx: Context) -> int:
    need_page()
    from leftoff.web import page_server, served

    port = _port(args.port)
    _check_host(args)
    projects = _served(args, ctx, served)
    options = served.PageOptions(
        **page_server.secrets_of(ctx.caller, projects, read_only=args.read_only),
        hosts=tuple(args.allow_host),
        base=_base_path(args.base_path),
        read_only=args.read_only,
        once=secrets.token_urlsafe(24) if args.open else "",
    )
    sock = page_server.open_port(args.host or "127.0.0.1", port)
    address = page_server.page_address(sock, options)

    def ready() -> None:
        if args.json:
            ctx.emit({"url": f"{address}?token={options.token}", "read_only": args.read_only})
        else:
            _tell_address(ctx, args, f"{address}?token={options.token}")
        if args.open:
            webbrowser.open(f"{address}?token={options.once}")

    try:
        page_server.serve_page(page_server.make_app(projects, options), sock, options.limits, ready)
    except KeyboardInterrupt:
        pass
    ctx.say("leftoff: the page is closed; runs go on.")
    return 130


def need_page() -> None:
    """Raise ``Unsupported`` if the extra `web` is not installed."""
    try:
        from leftoff.web import page_server  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn", "jinja2", "anyio"):
            raise
        raise Unsupported(
            "The page needs packages that are not installed.", hint="pip install 'leftoff[web]'"
        ) from None


def _port(given: str | None) -> int:
    if given is None:
        return 8765
    if not (given.isascii() and given.isdigit() and len(given) < 6 and int(given) < 65536):
        raise Usage(f"--port is a number from 0 to 65535, not {given!r}.", hint="For example: --port 8765")
    return int(given)


def _base_path(given: str | None) -> str:
    """Return the path without a slash at its end."""
    path = (given or "").rstrip("/")
    if path and (not path.startswith("/") or "//" in path or set(path) & set("?#%\\ ")):
        raise Usage(
            f"--base-path is a path like /leftoff, not {given!r}.", hint="For example: --base-path /leftoff"
        )
    return path


def _check_host(args: Args) -> None:
    """Raise ``Usage`` if other machines can reach the address and no name is allowed for them, or any name is."""
    if any("*" in name for name in args.allow_host):
        raise Usage("--allow-host is a name, not a pattern.", hint="Give it once for each name.")
    if args.host not in (None, "127.0.0.1", "::1", "localhost") and not args.allow_host:
        raise Usage(
            f"--host {args.host} opens the page to others, and no name is given under which they may ask for it.",
            hint="--allow-host NAME says which: the name or address that stands in the browser's address bar. Whoever "
            "has the token then sees every run, and decides what you can. docs/web.md says more.",
        )


def _served(args: Args, ctx: Context, served: Any) -> Any:
    """Return the folders that are named; else this project, or all projects of the server that its store is on."""
    beside = {} if args.rest else projects_beside(ctx.project)
    if beside:
        return served.serve_stores(ctx.project.folder, beside)
    folders = [find_project(given=folder) for folder in args.rest] or [ctx.project.folder]
    return served.serve_folders(folders, args.store)


def _tell_address(ctx: Context, args: Args, url: str) -> None:
    ctx.out(url)
    who = "Whoever has this address sees every run" + (
        "." if args.read_only else ", and decides what you can: keep it to yourself."
    )
    ctx.say(f"leftoff: the page is served. {who} Ctrl-C ends it; runs go on.")
    if args.allow_host:
        ctx.say(
            f"leftoff: other machines reach it as {', '.join(args.allow_host)}. It is not encrypted: put a proxy "
            "with TLS in front of it where others share the network."
        )


# -- supervise


URL_S = 10.0
COMMAND_S = 60.0


def run_supervise(args: Args, ctx: Context) -> int:
    from leftoff.operations.supervision import Supervision

    supervision = Supervision(ctx.project, ctx.caller)
    watch = Watcher(ctx, supervision, restart=bool(args.restart) or supervision.settings.restart)
    if args.once:
        watch.look()
        _emit_last(ctx)
        return 0
    from time import sleep

    ctx.say("leftoff: watching; Ctrl-C ends it.")
    try:
        while True:
            watch.look()
            sleep(supervision.settings.every)
    except KeyboardInterrupt:
        _emit_last(ctx)
        return 130


def _emit_last(ctx: Context) -> None:
    """The last event: the run that something happened in last."""
    if ctx.args.json:
        newest = list_project_runs(ctx.project, limit=1).runs
        ctx.emit({"event": "end", "run": newest[0].to_json() if newest else None})


class Watcher:
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

    def _tell(self, change: RunChange) -> None:
        if self.ctx.args.json:
            self.ctx.emit(change.to_json())
        else:
            self.ctx.out(f"{change.to_json()['at'][:19]}Z  {clean(change.message)}")
        if self.settings.command:
            self._run_command(change)
        if self.settings.url:
            self._post(change)

    def _run_command(self, change: RunChange) -> None:
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

    def _post(self, change: RunChange) -> None:
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
        resumes, why = self.supervision.consider(info)
        if resumes:
            change = self.supervision.restarted(info)
            self._resume(info.run_id)
            self._tell(change)
        elif why:
            self.ctx.say(f"leftoff: {info.run_id} is not restarted: {clean(why)}.")

    def _resume(self, run_id: str) -> None:
        start_resume(self.ctx.project, self.ctx.caller, [run_id], "supervise.log")
