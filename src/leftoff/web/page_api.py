"""``/api``: the operations for programs. An answer is the document that the command prints with ``--json``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leftoff._version import __version__
from leftoff.engine.attempt_logs import Choice
from leftoff.engine.caller import Caller
from leftoff.engine.project import Project
from leftoff.engine.resume_answers import ResumeRequest
from leftoff.engine.show import StepsWanted, step_page
from leftoff.errors import Usage
from leftoff.model.codec import text as canonical
from leftoff.operations.checkpoints import brief_run, compare_versions, history, show
from leftoff.operations.page_actions import act, dry_run, run_records
from leftoff.operations.resuming import judge
from leftoff.operations.runs import check_statuses, info_of, list_project_runs, status, target
from leftoff.operations.store_upkeep import store_info as store_info
from leftoff.operations.watching import log_document as log_document
from leftoff.operations.watching import logs_of
from leftoff.protocols.project_retention import prune_project
from leftoff.web.page_posts import fields_of, page_caller, query_lists, read_document
from leftoff.web.served import projects_of, served_by

_BASE = "/api/projects/{project}"
_MOST, _DEFAULT = 1000, 50  # runs, steps, checkpoints in one answer


class ApiQuery:
    """The parameters of a URL, checked when they are read."""

    def __init__(self, request: Request) -> None:
        self._given = request.query_params

    def text(self, name: str) -> str | None:
        return self._given.get(name) or None

    def words(self, name: str) -> list[str] | None:
        given = self.text(name)
        return [word.strip() for word in given.split(",")] if given else None

    def number(self, name: str, most: int = 10**9) -> int | None:
        given = self.text(name)
        if given is None:
            return None
        if not (given.isascii() and given.isdigit() and len(given) < 11 and 1 <= int(given) <= most):
            raise Usage(
                f"{name} is a whole number from 1 to {most}, not {given!r}.", hint=f"For example: {name}=20"
            )
        return int(given)

    def limit(self) -> int:
        return self.number("limit", _MOST) or _DEFAULT

    def flag(self, name: str) -> bool:
        return self.text(name) in ("1", "true", "yes")

    def ref(self, run: str) -> str:
        """Return the run, or the version of it that ``?at=`` names."""
        at = self.number("at")
        return f"{run}@{at}" if at is not None else run


# -- what can be read of a project (run is empty), and of a run


def _runs(project: Project, run: str, query: ApiQuery) -> Any:
    wanted = query.words("status")
    check_statuses(wanted or ())
    workflow, branch = query.text("workflow"), query.text("branch")
    found = list_project_runs(project, wanted, workflow, branch, query.limit(), archived=query.flag("all"))
    return {**found.to_json(), "more": found.more}


def _status(project: Project, run: str, query: ApiQuery) -> Any:
    return status(project, Caller()).to_json()


def _store(project: Project, run: str, query: ApiQuery) -> Any:
    return store_info(project).to_json()


def _prune(project: Project, run: str, query: ApiQuery) -> Any:
    return prune_project(project, dry=True).to_json()


def _run(project: Project, run: str, query: ApiQuery) -> Any:
    return info_of(project, target(project, Caller(), run).row).to_json()


def _show(project: Project, run: str, query: ApiQuery) -> Any:
    return show(project, Caller(), query.ref(run))


def _steps(project: Project, run: str, query: ApiQuery) -> Any:
    after = (query.text("after") or "").split("\t")
    place = (after[0], after[1]) if len(after) == 2 else ("", "")
    wanted = StepsWanted(query.words("status") or (), query.text("text") or "", place, query.limit())
    found = step_page(project.store, target(project, Caller(), query.ref(run)), wanted)
    following = "\t".join(found.next) if found.next is not None else None
    return {"step_records": found.steps, "next": following, "steps": found.counts}


def _log(project: Project, run: str, query: ApiQuery) -> Any:
    return history(project, Caller(), run, query.limit()).to_json()


def _logs(project: Project, run: str, query: ApiQuery) -> Any:
    choice = Choice(query.text("step"), query.number("attempt"), query.flag("failed"))
    logs = logs_of(project, Caller(), run, choice)
    return {"run_id": logs.run_id, "logs": [log_document(project, log) for log in logs.find().logs]}


def _verify(project: Project, run: str, query: ApiQuery) -> Any:
    found = target(project, Caller(), query.ref(run))
    return judge(project, Caller(), ResumeRequest(found, resumes=False)).to_json()


def _brief(project: Project, run: str, query: ApiQuery) -> Any:
    return brief_run(project, Caller(), query.ref(run))


def _diff(project: Project, run: str, query: ApiQuery) -> Any:
    old, new = query.number("from"), query.number("to")
    return compare_versions(
        project, Caller(), f"{run}@{old}" if old else run, f"{run}@{new}" if new else None
    ).to_json()


def _audit(project: Project, run: str, query: ApiQuery) -> Any:
    found = run_records(project, Caller(), run, "audit")["audit"]
    return {"audit": [found[key] for key in sorted(found)]}


_Read = Callable[[Project, str, ApiQuery], Any]
_READS: dict[str, _Read] = {
    "/runs": _runs,
    "/status": _status,
    "/store": _store,
    "/prune": _prune,
    "/runs/{run}": _run,
    "/runs/{run}/show": _show,
    "/runs/{run}/steps": _steps,
    "/runs/{run}/log": _log,
    "/runs/{run}/logs": _logs,
    "/runs/{run}/verify": _verify,
    "/runs/{run}/brief": _brief,
    "/runs/{run}/diff": _diff,
    "/runs/{run}/audit": _audit,
}


def _answer(found: Any, status: int = 200) -> Response:
    return Response(canonical(found), status, media_type="application/json")


def _read(read: _Read, request: Request) -> Response:
    with served_by(request).open() as project:
        return _answer(read(project, request.path_params.get("run", ""), ApiQuery(request)))


def _list_projects(request: Request) -> Response:
    found = [{"key": one.key, "name": one.name, "folder": one.folder} for one in projects_of(request)]
    return _answer({"version": __version__, "projects": found})


# -- what changes something


def _dry_run(request: Request) -> Response:
    run, action = request.path_params["run"], request.path_params["action"]
    given = fields_of(action, query_lists(request))
    with served_by(request).open() as project:
        return _answer(dry_run(project, page_caller(), action, run, given).to_json())


async def _act(request: Request) -> Response:
    return await run_in_threadpool(_acted, request, await read_document(request))


def _acted(request: Request, given: dict[str, Any]) -> Response:
    run, action = request.path_params["run"], request.path_params["action"]
    with served_by(request).open() as project:
        done = act(project, page_caller("api"), action, run, given)
    return _answer({**done.document, "told": done.told})


async def _begin_prune(request: Request) -> Response:
    await read_document(request)
    return await run_in_threadpool(_pruned, request)


def _pruned(request: Request) -> Response:
    with served_by(request).open() as project:
        return _answer(prune_project(project).to_json())


async def _begin_check(request: Request) -> Response:
    await read_document(request)
    return _answer(request.app.state.checks.start(served_by(request)), 202)


def _check(request: Request) -> Response:
    return _answer(request.app.state.checks.of(served_by(request).key))


def api_routes(*, read_only: bool) -> list[Route]:
    found = [
        Route("/api/projects", _list_projects, methods=["GET"]),
        *(Route(_BASE + path, partial(_read, read), methods=["GET"]) for path, read in _READS.items()),
        Route(_BASE + "/fsck", _check, methods=["GET"]),
    ]
    if not read_only:
        found += [
            Route(_BASE + "/runs/{run}/ahead/{action}", _dry_run, methods=["GET"]),
            Route(_BASE + "/runs/{run}/{action}", _act, methods=["POST"]),
            Route(_BASE + "/prune", _begin_prune, methods=["POST"]),
            Route(_BASE + "/fsck", _begin_check, methods=["POST"]),
        ]
    return found
