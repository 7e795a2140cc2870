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
from leftoff.engine.project import Project
from leftoff.engine.resume_answers import ResumeRequest
from leftoff.engine.show import StepsWanted, step_page
from leftoff.model.codec import text as canonical
from leftoff.operations.checkpoints import brief_run, compare_versions, history, show
from leftoff.operations.page_actions import act, dry_run, run_records
from leftoff.operations.resuming import judge
from leftoff.operations.runs import info_of, list_project_runs, status, target
from leftoff.operations.store_upkeep import store_info as store_info
from leftoff.operations.watching import log_document as log_document
from leftoff.operations.watching import logs_of
from leftoff.protocols.project_retention import prune_project
from leftoff.web.page_posts import fields_of, page_caller, query_lists, read_document
from leftoff.web.served import ScreenRequest, projects_of, screen_request, served_by

_BASE = "/api/projects/{project}"
_MOST, _DEFAULT = 1000, 50  # runs, steps, checkpoints in one answer


# -- what can be read of a project, and of a run


def _runs(project: Project, asked: ScreenRequest) -> Any:
    wanted, workflow, branch = asked.words("status") or None, asked.text("workflow"), asked.text("branch")
    is_all = asked.query.get("all") in ("1", "true", "yes")
    found = list_project_runs(project, wanted, workflow, branch, _limit(asked), archived=is_all)
    return {**found.to_json(), "more": found.more}


def _limit(asked: ScreenRequest) -> int:
    return asked.number("limit", 1, _MOST) or _DEFAULT


def _steps(project: Project, asked: ScreenRequest) -> Any:
    after = asked.query.get("after", "").split("\t")
    place = (after[0], after[1]) if len(after) == 2 else ("", "")
    wanted = StepsWanted(asked.words("status"), asked.query.get("text", ""), place, _limit(asked))
    found = step_page(project.store, target(project, asked.caller, asked.ref), wanted)
    following = "\t".join(found.next) if found.next is not None else None
    return {"step_records": found.steps, "next": following, "steps": found.counts}


def _logs(project: Project, asked: ScreenRequest) -> Any:
    is_failed = asked.query.get("failed") in ("1", "true", "yes")
    choice = Choice(asked.text("step"), asked.number("attempt", 1), is_failed)
    logs = logs_of(project, asked.caller, asked.run, choice)
    return {"run_id": logs.run_id, "logs": [log_document(project, log) for log in logs.find().logs]}


def _verify(project: Project, asked: ScreenRequest) -> Any:
    found = target(project, asked.caller, asked.ref)
    return judge(project, asked.caller, ResumeRequest(found, resumes=False)).to_json()


def _diff(project: Project, asked: ScreenRequest) -> Any:
    old, new = asked.number("from"), asked.number("to")
    refs = (f"{asked.run}@{old}" if old else asked.run, f"{asked.run}@{new}" if new else None)
    return compare_versions(project, asked.caller, *refs).to_json()


def _audit(project: Project, asked: ScreenRequest) -> Any:
    found = run_records(project, asked.caller, asked.run, "audit")["audit"]
    return {"audit": [found[key] for key in sorted(found)]}


_Read = Callable[[Project, ScreenRequest], Any]
_READS: dict[str, _Read] = {
    "/runs": _runs,
    "/status": lambda project, asked: status(project, asked.caller).to_json(),
    "/store": lambda project, asked: store_info(project),
    "/prune": lambda project, asked: prune_project(project, dry=True).to_json(),
    "/runs/{run}": lambda p, asked: info_of(p, target(p, asked.caller, asked.run).row).to_json(),
    "/runs/{run}/show": lambda project, asked: show(project, asked.caller, asked.ref),
    "/runs/{run}/steps": _steps,
    "/runs/{run}/log": lambda p, asked: history(p, asked.caller, asked.run, _limit(asked)).to_json(),
    "/runs/{run}/logs": _logs,
    "/runs/{run}/verify": _verify,
    "/runs/{run}/brief": lambda project, asked: brief_run(project, asked.caller, asked.ref),
    "/runs/{run}/diff": _diff,
    "/runs/{run}/audit": _audit,
}


def _answer(found: Any, status: int = 200) -> Response:
    return Response(canonical(found), status, media_type="application/json")


def _read(read: _Read, request: Request) -> Response:
    with served_by(request).open() as project:
        return _answer(read(project, screen_request(request)))


# -- what changes something


def _dry_run(request: Request) -> Response:
    run, action = request.path_params["run"], request.path_params["action"]
    given = fields_of(action, query_lists(request))
    with served_by(request).open() as project:
        return _answer(dry_run(project, page_caller(), action, run, given).to_json())


async def _act(request: Request) -> Response:
    run, action = request.path_params["run"], request.path_params["action"]
    given = await read_document(request)

    def work() -> Response:
        with served_by(request).open() as project:
            done = act(project, page_caller("api"), action, run, given)
        return _answer({**done.document, "told": done.told})

    return await run_in_threadpool(work)


async def _begin_prune(request: Request) -> Response:
    await read_document(request)

    def work() -> Response:
        with served_by(request).open() as project:
            return _answer(prune_project(project).to_json())

    return await run_in_threadpool(work)


async def _begin_check(request: Request) -> Response:
    await read_document(request)
    return _answer(request.app.state.checks.start(served_by(request)), 202)


def api_routes(*, read_only: bool) -> list[Route]:
    def list_projects(request: Request) -> Response:
        found = [{"key": one.key, "name": one.name, "folder": one.folder} for one in projects_of(request)]
        return _answer({"version": __version__, "projects": found})

    def last_check(request: Request) -> Response:
        return _answer(request.app.state.checks.of(served_by(request).key))

    found = [
        Route("/api/projects", list_projects, methods=["GET"]),
        *(Route(_BASE + path, partial(_read, read), methods=["GET"]) for path, read in _READS.items()),
        Route(_BASE + "/fsck", last_check, methods=["GET"]),
    ]
    if not read_only:
        found += [
            Route(_BASE + "/runs/{run}/ahead/{action}", _dry_run, methods=["GET"]),
            Route(_BASE + "/runs/{run}/{action}", _act, methods=["POST"]),
            Route(_BASE + "/prune", _begin_prune, methods=["POST"]),
            Route(_BASE + "/fsck", _begin_check, methods=["POST"]),
        ]
    return found
