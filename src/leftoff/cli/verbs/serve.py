"""``leftoff serve``: the page, in a browser."""

from __future__ import annotations

import secrets
import webbrowser
from typing import Any

from leftoff.cli.context import Context
from leftoff.cli.options import Args, Opt, Spec
from leftoff.engine.config.project import find_project
from leftoff.errors import Unsupported, Usage
from leftoff.operations.upkeep.stores import projects_beside

SPEC = Spec(
    "serve",
    "Show all runs in a browser, live, and decide there what is waiting for you. The address that is printed "
    "carries a token: whoever has it sees and decides what you can.\n\n"
    "It is served to this machine alone. --host opens it to others, who must ask for it under a name that "
    "--allow-host gives. Several folders are shown on one page. It needs the extra `web`: pip install "
    "'leftoff[web]'.",
    usage="[DIR…]",
    most=None,
    options=(
        Opt("--port", "N", "the port (default: 8765; 0: any that is free)"),
        Opt("--host", "ADDRESS", "the address to listen at (default: 127.0.0.1)", filled=True),
        Opt("--allow-host", "NAME", "a name under which others may ask for the page", many=True, filled=True),
        Opt("--base-path", "PATH", "the path below which a proxy shows the page, like /leftoff", filled=True),
        Opt("--read-only", None, "nothing can be changed from the page"),
        Opt("--open", None, "open the page in a browser"),
    ),
    examples="""  leftoff serve --open
  leftoff serve ~/one ~/two --read-only
  leftoff serve --host 0.0.0.0 --allow-host build.example.org""",
)


def run(args: Args, ctx: Context) -> int:
    need_page()
    from leftoff.web import app, page_server, served

    port = _port(args.port)
    _check_host(args)
    projects = _projects(args, ctx, served)
    options = served.PageOptions(
        **page_server.secrets_of(ctx.caller, projects, read_only=args.read_only),
        hosts=tuple(args.allow_host),
        base=_base(args.base_path),
        read_only=args.read_only,
        once=secrets.token_urlsafe(24) if args.open else "",
    )
    sock = page_server.open_port(args.host or "127.0.0.1", port)
    address = page_server.page_address(sock, options)

    def ready() -> None:
        if args.json:
            ctx.emit({"url": f"{address}?token={options.token}", "read_only": args.read_only})
        else:
            _tell(ctx, args, f"{address}?token={options.token}")
        if args.open:
            webbrowser.open(f"{address}?token={options.once}")

    try:
        page_server.serve_page(app.make_app(projects, options), sock, options.limits, ready)
    except KeyboardInterrupt:
        pass
    ctx.say("leftoff: the page is closed; runs go on.")
    return 130


def need_page() -> None:
    """Raise ``Unsupported`` if the extra `web` is not installed."""
    try:
        from leftoff.web import app, page_server  # noqa: F401
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


def _base(given: str | None) -> str:
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


def _projects(args: Args, ctx: Context, served: Any) -> Any:
    """Return the folders that are named; else this project, or all projects of the server that its store is on."""
    beside = {} if args.rest else projects_beside(ctx.project)
    if beside:
        return served.serve_stores(ctx.project.folder, beside)
    folders = [find_project(given=folder) for folder in args.rest] or [ctx.project.folder]
    return served.serve_folders(folders, args.store)


def _tell(ctx: Context, args: Args, url: str) -> None:
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
