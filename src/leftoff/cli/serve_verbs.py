"""Watch all runs until Ctrl-C: serve, supervise."""

from __future__ import annotations

import json
import subprocess
import webbrowser
from time import sleep

from leftoff.cli.context import Context
from leftoff.cli.options import Args
from leftoff.cli.text import clean
from leftoff.engine.attention import RunChange
from leftoff.engine.project import find_project
from leftoff.errors import Unsupported, Usage, extra_hint
from leftoff.operations.runs import list_project_runs
from leftoff.operations.supervision import Supervision

# -- serve


def run_serve(args: Args, ctx: Context) -> int:
    need_page()
    from leftoff.web import page_server, served

    port, base = args.port if args.port is not None else "8765", (args.base_path or "").rstrip("/")
    if not (port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 65536):
        raise Usage(f"--port is a number from 0 to 65535, not {port!r}.", hint="For example: --port 8765")
    if base and (not base.startswith("/") or "//" in base or set(base) & set("?#%\\ ")):
        raise Usage(
            f"--base-path is a path like /leftoff, not {args.base_path!r}.",
            hint="For example: --base-path /leftoff",
        )
    if any("*" in name for name in args.allow_host):
        raise Usage("--allow-host is a name, not a pattern.", hint="Give it once for each name.")
    if args.host not in (None, "127.0.0.1", "::1", "localhost") and not args.allow_host:
        raise Usage(
            f"`--host {args.host}` lets other machines connect, so `--allow-host NAME` is required.",
            hint="NAME is what the address bar of their browser shows. Everyone who has the token sees every run, "
            "and decides what you can.",
        )
    folders = [find_project(given=folder) for folder in args.rest] or [ctx.project.folder]
    projects = served.serve_folders(folders, args.store)
    options = served.PageOptions(
        **page_server.page_secrets(ctx.caller, projects, read_only=args.read_only),
        hosts=tuple(args.allow_host),
        base=base,
        read_only=args.read_only,
    )
    sock = page_server.open_port(args.host or "127.0.0.1", int(port))
    url = f"{page_server.page_address(sock, options)}?token={options.token}"

    def ready() -> None:
        if args.json:
            ctx.emit({"url": url, "read_only": args.read_only})
        else:
            ctx.out(url)
            who = "Everyone who has this address sees every run"
            who += "." if args.read_only else ", and decides what you can: keep it to yourself."
            ctx.say(f"leftoff: the page is served. {who} Ctrl-C ends it; runs continue.")
            if args.allow_host:
                ctx.say(
                    f"leftoff: other machines reach it as {', '.join(args.allow_host)}. It is not encrypted: put a "
                    "proxy with TLS in front of it where others share the network."
                )
        if args.open:
            webbrowser.open(url)

    try:
        page_server.serve_page(page_server.make_app(projects, options), sock, options.limits, ready)
    except KeyboardInterrupt:
        pass
    ctx.say("leftoff: the page is closed; runs continue.")
    return 130


def need_page() -> None:
    """Raise ``Unsupported`` if the extra `web` is not installed."""
    try:
        from leftoff.web import page_server  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn", "jinja2", "anyio"):
            raise
        raise Unsupported("The page needs packages that are not installed.", hint=extra_hint("web")) from None


# -- supervise

URL_S = 10.0
COMMAND_S = 60.0


def run_supervise(args: Args, ctx: Context) -> int:
    supervision = Supervision(ctx.project, ctx.caller)
    restart = bool(args.restart) or supervision.settings.restart
    code = 0
    if not args.once:
        ctx.say("leftoff: watching; Ctrl-C ends it.")
    try:
        while True:
            for found in supervision.look(restart):
                if isinstance(found, str):
                    ctx.say(f"leftoff: {clean(found)}")
                else:
                    _report_change(ctx, supervision, found)
            if args.once:
                break
            sleep(supervision.settings.interval)
    except KeyboardInterrupt:
        code = 130
    if args.json:  # the last event has the run that changed last
        newest = list_project_runs(ctx.project, limit=1).runs
        ctx.emit({"event": "end", "run": newest[0].to_json() if newest else None})
    return code


def _report_change(ctx: Context, supervision: Supervision, change: RunChange) -> None:
    """Print a change, and pass it to the command and the URL of the settings."""
    about, settings = change.to_json(), supervision.settings
    ctx.answer(about, f"{about['at'][:19]}Z  {clean(change.message)}")
    document = json.dumps(about)
    if settings.command:
        run_id = str(change.run["run_id"])
        given = {"LEFTOFF_EVENT": change.event, "LEFTOFF_MESSAGE": change.message, "LEFTOFF_RUN": run_id}
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", settings.command],
                cwd=ctx.project.folder,
                env=ctx.caller.environment(given),
                input=document,
                text=True,
                timeout=COMMAND_S,
            )
            if done.returncode != 0:
                ctx.say(f"leftoff: the command of [supervise] ended with {done.returncode}.")
        except (OSError, subprocess.SubprocessError) as error:
            ctx.say(f"leftoff: the command of [supervise] could not be run: {error}")
    if settings.url:
        from urllib.request import Request, urlopen

        try:
            request = Request(settings.url, document.encode(), {"Content-Type": "application/json"})
            with urlopen(request, timeout=URL_S):
                pass
        except (OSError, ValueError) as error:
            ctx.say(f"leftoff: {settings.url} could not be notified: {error}")
