"""``/api``: the operations for programs. What is answered is what the command prints with ``--json``.

One table says all of it: the routes are made from it, and the document that describes them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from leftoff._version import __version__
from leftoff.engine.resume.request import ResumeRequest
from leftoff.errors import Usage
from leftoff.model.codec import text as canonical
from leftoff.model.fields import Fields
from leftoff.operations import Caller, Project
from leftoff.operations.checkpoints import brief, compare, history, show
from leftoff.operations.pages.actions import ACTIONS, act
from leftoff.operations.pages.one_run import StepsWanted, kept, steps
from leftoff.operations.pages.previews import preview
from leftoff.operations.resume.verdict import verify
from leftoff.operations.run_list import Wanted, check_statuses, list_runs
from leftoff.operations.runs import info, target
from leftoff.operations.status import status
from leftoff.operations.upkeep.retention import prune
from leftoff.operations.upkeep.stores import info as store_info
from leftoff.operations.watching.logs import Choice, logs_of
from leftoff.operations.watching.logs import document as log_document
from leftoff.web import openapi
from leftoff.web.actions import page_caller
from leftoff.web.asking import projects_of
from leftoff.web.forms import document, fields_of

MOST, DEFAULT = 1000, 50  # runs, steps, checkpoints in one answer


class Query:
    """What stands behind the ``?``, checked where it is read."""

    def __init__(self, request: Request) -> None:
        self._given = request.query_params

    def text(self, name: str) -> str | None:
        return self._given.get(name) or None

    def words(self, name: str) -> list[str] | None:
        given = self.text(name)
        return [word.strip() for word in given.split(",")] if given else None

    def number(self, name: str, default: int | None = None, most: int = 10**9) -> int | None:
        given = self.text(name)
        if given is None:
            return default
        if not (given.isascii() and given.isdigit() and len(given) < 11 and 1 <= int(given) <= most):
            raise Usage(
                f"{name} is a whole number from 1 to {most}, not {given!r}.", hint=f"For example: {name}=20"
            )
        return int(given)

    def flag(self, name: str) -> bool:
        return self.text(name) in ("1", "true", "yes")


# -- what can be asked of a project, and of a run


def _runs(project: Project, run: str, query: Query) -> Any:
    wanted = query.words("status")
    check_statuses(wanted or ())
    limit = query.number("limit", DEFAULT, MOST)
    every = query.flag("all")
    found = list_runs(
        project, Wanted(wanted, query.text("workflow"), query.text("branch"), limit, archived=every)
    )
    return {**found.to_json(), "more": found.more}


def _status(project: Project, run: str, query: Query) -> Any:
    return status(project, Caller()).to_json()


def _store(project: Project, run: str, query: Query) -> Any:
    return store_info(project).to_json()


def _prune(project: Project, run: str, query: Query) -> Any:
    return prune(project, dry=True).to_json()


def _run(project: Project, run: str, query: Query) -> Any:
    return info(project, target(project, Caller(), run).row).to_json()


def _show(project: Project, run: str, query: Query) -> Any:
    return show(project, Caller(), _ref(run, query))


def _steps(project: Project, run: str, query: Query) -> Any:
    after = (query.text("after") or "").split("\t")
    place = (after[0], after[1]) if len(after) == 2 else ("", "")
    limit = query.number("limit", DEFAULT, MOST)
    assert limit is not None
    wanted = StepsWanted(query.words("status") or (), query.text("text") or "", place, limit)
    found = steps(project, Caller(), _ref(run, query), wanted)
    return {
        "step_records": found.steps,
        "next": "\t".join(found.next) if found.next is not None else None,
        "steps": found.counts,
    }


def _log(project: Project, run: str, query: Query) -> Any:
    return history(project, Caller(), run, query.number("limit", DEFAULT, MOST)).to_json()


def _logs(project: Project, run: str, query: Query) -> Any:
    choice = Choice(query.text("step"), query.number("attempt"), query.flag("failed"))
    logs = logs_of(project, Caller(), run, choice)
    return {"run_id": logs.run_id, "logs": [log_document(project, log) for log in logs.find().logs]}


def _verify(project: Project, run: str, query: Query) -> Any:
    found = target(project, Caller(), _ref(run, query))
    return verify(project, Caller(), ResumeRequest(found, resumes=False)).to_json()


def _brief(project: Project, run: str, query: Query) -> Any:
    return brief(project, Caller(), _ref(run, query)).to_json()


def _diff(project: Project, run: str, query: Query) -> Any:
    old, new = query.number("from"), query.number("to")
    return compare(
        project, Caller(), f"{run}@{old}" if old else run, f"{run}@{new}" if new else None
    ).to_json()


def _audit(project: Project, run: str, query: Query) -> Any:
    found = kept(project, Caller(), run, "audit")["audit"]
    return {"audit": [found[key] for key in sorted(found)]}


def _ahead(project: Project, run: str, query: Query, action: str) -> Any:
    given = {name: query._given.getlist(name) for name in query._given}
    return preview(project, page_caller(), action, run, fields_of(action, given)).to_json()


def _ref(run: str, query: Query) -> str:
    at = query.number("at")
    return f"{run}@{at}" if at is not None else run


class Endpoint(Fields):
    """One address: its path below ``/api/projects/{project}``, what it answers, what may stand behind the ``?``."""

    path: str
    about: str
    answer: Callable[[Project, str, Query], Any]
    query: dict[str, str] = {}


_AT = {"at": "the number of a version; without it, now"}
_LIMIT = {"limit": f"at most so many ({DEFAULT})"}
READS = (
    Endpoint(
        "/runs",
        "Runs, most recent first, as `ls`.",
        _runs,
        {
            "status": "only these, separated by commas",
            "workflow": "only of this workflow",
            "branch": "only of this branch",
            "all": "1: with archived ones",
            **_LIMIT,
        },
    ),
    Endpoint("/status", "The project, the current run and every unfinished run, as `status`.", _status),
    Endpoint("/store", "What the store is, as `store info`.", _store),
    Endpoint("/prune", "What retention would let go, as `prune --dry-run`.", _prune),
    Endpoint("/runs/{run}", "A run.", _run),
    Endpoint("/runs/{run}/show", "All of a run, now or at a version, as `show`.", _show, _AT),
    Endpoint(
        "/runs/{run}/steps",
        "Its steps by the page.",
        _steps,
        {
            "status": "only these, separated by commas",
            "text": "a text in their path",
            "after": "`next` of the page before",
            **_LIMIT,
            **_AT,
        },
    ),
    Endpoint("/runs/{run}/log", "Its checkpoints, newest first, as `log`.", _log, _LIMIT),
    Endpoint(
        "/runs/{run}/logs",
        "What its steps printed, as `logs`.",
        _logs,
        {"step": "of this step", "attempt": "of this attempt", "failed": "1: of failed attempts"},
    ),
    Endpoint("/runs/{run}/verify", "Whether it can be resumed, as `verify`.", _verify, _AT),
    Endpoint("/runs/{run}/brief", "What one must know to continue it, as `brief`.", _brief, _AT),
    Endpoint(
        "/runs/{run}/diff",
        "What differs between two versions, as `diff`.",
        _diff,
        {"from": "the older version", "to": "the newer one; without it, now"},
    ),
    Endpoint("/runs/{run}/audit", "Who decided what about it through the page.", _audit),
)


def _get(endpoint: Endpoint, request: Request) -> Response:
    with projects_of(request).of(request.path_params["project"]).open() as project:
        return answered(endpoint.answer(project, request.path_params.get("run", ""), Query(request)))


def answered(found: Any, status: int = 200) -> Response:
    """A document, written as the command writes it."""
    return Response(canonical(found), status, media_type="application/json")


def _looked_ahead(request: Request) -> Response:
    with projects_of(request).of(request.path_params["project"]).open() as project:
        run, action = request.path_params["run"], request.path_params["action"]
        return answered(_ahead(project, run, Query(request), action))


def listed(request: Request) -> Response:
    """What is served."""
    found = [{"key": one.key, "name": one.name, "folder": one.folder} for one in projects_of(request)]
    return answered({"version": __version__, "projects": found})


def described(request: Request) -> Response:
    """The document that describes all of this."""
    read_only = request.app.state.options.read_only
    return JSONResponse(
        openapi.document(READS, {} if read_only else ACTIONS, request.scope.get("root_path", ""))
    )


async def _act(request: Request) -> Response:
    given = await document(request)
    return await run_in_threadpool(_acted, request, given)


def _acted(request: Request, given: dict[str, Any]) -> Response:
    run, action = request.path_params["run"], request.path_params["action"]
    caller = page_caller()
    caller.via = "api"
    with projects_of(request).of(request.path_params["project"]).open() as project:
        done = act(project, caller, action, run, given)
    return answered({**done.document, "told": done.told})


async def _let_go(request: Request) -> Response:
    await document(request)
    return await run_in_threadpool(_pruned, request)


def _pruned(request: Request) -> Response:
    with projects_of(request).of(request.path_params["project"]).open() as project:
        return answered(prune(project).to_json())


async def _begin_check(request: Request) -> Response:
    await document(request)
    job = request.app.state.jobs.check(projects_of(request).of(request.path_params["project"]))
    return answered(job.to_json(), 202)


def _checked(request: Request) -> Response:
    key = projects_of(request).of(request.path_params["project"]).key
    return answered(request.app.state.jobs.of(key) or {"running": False, "report": None})


def routes(*, read_only: bool) -> list[Route]:
    """All of it; where nothing may be changed, without what would."""
    base = openapi.BASE
    found = [
        Route("/api/projects", listed, methods=["GET"]),
        Route("/api/openapi.json", described, methods=["GET"]),
        *(Route(base + each.path, partial(_get, each), methods=["GET"]) for each in READS),
        Route(base + "/fsck", _checked, methods=["GET"]),
    ]
    if not read_only:
        found += [
            Route(base + "/runs/{run}/ahead/{action}", _looked_ahead, methods=["GET"]),
            Route(base + "/runs/{run}/{action}", _act, methods=["POST"]),
            Route(base + "/prune", _let_go, methods=["POST"]),
            Route(base + "/fsck", _begin_check, methods=["POST"]),
        ]
    return found
