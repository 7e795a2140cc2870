"""The page of a server with several projects: all of them at once, and decisions in each."""

from __future__ import annotations

from pathlib import Path

from leftoff.engine.project import Project
from leftoff.operations.store_upkeep import projects_beside
from leftoff.web.page_server import make_app
from leftoff.web.served import serve_stores
from tests.cli.command import call, succeed
from tests.postgres.conftest import drop
from tests.postgres.server import Server
from tests.web.client import serving


def test_all_projects_of_a_server(tmp_path: Path, server: Server, name: str, url: str) -> None:
    """Where the URL names no project, all of them are served; each decision is made in its own."""
    other = f"{name}-b"
    try:
        for project, location in ((name, url), (other, server.url(other))):
            succeed("--store", location, "start", "w", "--run-id", f"run-of-{project}", cwd=tmp_path)
        place = Project(str(tmp_path), server.url())
        beside = projects_beside(place)
        place.close()
        assert {name, other} <= set(beside)
        named = Project(str(tmp_path), url)
        assert {} == projects_beside(named)
        named.close()
        with serving(tmp_path) as page:
            ours = {key: location for key, location in beside.items() if key in (name, other)}
            page.app = make_app(serve_stores(str(tmp_path), ours), page.options)
            shown = page.get("/").text
            assert all(f"/p/{key}/runs/run-of-{key}" in shown for key in ours)
            done = page.api("POST", f"/api/projects/{other}/runs/run-of-{other}/fork", {"run_id": "made"})
            assert 200 == done.status
        assert 3 == call("--store", url, "show", "made", cwd=tmp_path).code
        succeed("--store", server.url(other), "show", "made", cwd=tmp_path)
    finally:
        drop(server, other)
