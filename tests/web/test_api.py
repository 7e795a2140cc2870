"""The interface for programs answers as the command does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import call, succeed
from tests.cli.runs import release, started
from tests.web.client import Client, serving


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Client]:
    release(tmp_path)
    with serving(tmp_path) as client:
        yield client


SAME = {
    "runs": ("ls",),
    "status": ("status",),
    "store": ("store", "info"),
    "prune": ("prune", "--dry-run"),
    "runs/latest/show": ("show", "latest"),
    "runs/latest/log": ("log", "latest"),
    "runs/latest/logs": ("logs", "latest"),
    "runs/latest/verify": ("verify", "latest"),
    "runs/latest/brief": ("brief", "latest"),
    "runs/latest/diff": ("diff", "latest"),
    "runs/latest/show?at=3": ("show", "latest@3"),
}


@pytest.mark.parametrize("path", SAME)
def test_as_the_command(page: Client, tmp_path: Path, path: str) -> None:
    """The same document as with --json; a list may say beside it that there is more."""
    found = page.api("GET", f"/api/projects/{tmp_path.name}/{path}").json
    printed = call(*SAME[path], "--json", cwd=tmp_path).json
    if path == "runs":
        assert found.pop("more") is False
    for document in (found, printed):
        for name in ("times", "time", "text"):  # they say how long ago something was
            document.pop(name, None)
    assert printed == found


def test_errors(page: Client, tmp_path: Path) -> None:
    """As the command prints them, with the status that fits the exit code."""
    path = f"/api/projects/{tmp_path.name}"
    answer = page.api("GET", f"{path}/runs/nothing")
    assert 404 == answer.status
    assert call("show", "nothing", "--json", cwd=tmp_path).json["error"] == answer.json["error"]
    assert 404 == page.api("GET", "/api/projects/nothing/runs").status
    assert 404 == page.api("GET", "/api/nothing").status
    for query in ("status=odd", "limit=0", "limit=x", "limit=-1", "limit=99999999999999999999"):
        assert 400 == page.api("GET", f"{path}/runs?{query}").status, query
    assert 404 == page.api("GET", f"{path}/runs/latest/show?at=99").status
    assert 405 == page.api("POST", "/api/projects", {}).status


def test_steps_by_the_page(tmp_path: Path) -> None:
    """Each step is on one page, in order."""
    run = started(tmp_path, "w", "--steps", ",".join(f"s{number}" for number in range(25)))
    with serving(tmp_path) as page:
        found: list[str] = []
        after = ""
        while True:
            path = f"/api/projects/{tmp_path.name}/runs/{run}/steps?limit=10&after={after}"
            answer = page.api("GET", path).json
            found += [record["step"] for record in answer["step_records"]]
            if answer["next"] is None:
                break
            after = answer["next"].replace("\t", "%09")
    assert [f"s{number}" for number in range(25)] == found and 25 == answer["steps"]["pending"]


def test_several_projects(tmp_path: Path) -> None:
    """One page, each project under another name."""
    folders = [tmp_path / "one" / "same", tmp_path / "two" / "same"]
    for number, folder in enumerate(folders):
        folder.mkdir(parents=True)
        started(folder, f"flow-{number}", "--run-id", f"run-{number}")
    with serving(*folders, folders[0]) as page:
        keys = [one["key"] for one in page.api("GET", "/api/projects").json["projects"]]
        assert ["same", "same-2"] == keys
        for number, key in enumerate(keys):
            found = page.api("GET", f"/api/projects/{key}/runs").json["runs"]
            assert [f"run-{number}"] == [run["run_id"] for run in found]
        shown = page.get("/").text
        assert all(f"/p/{key}/runs/run-{number}" in shown for number, key in enumerate(keys))


HOSTILE_FILES = {
    "page.html": (b"<script>alert(1)</script>", "text/plain; charset=utf-8", "inline"),
    "drawing.svg": (b"<svg onload='alert(1)'/>", "text/plain; charset=utf-8", "inline"),
    "picture.png": (b"\x89PNG\r\n\x1a\n....", "image/png", "inline"),
    "lies.png": (b"<html>", "text/plain; charset=utf-8", "inline"),
    "binary": (b"\x00\xff\xfe", "application/octet-stream", "attachment"),
    'odd "name".txt': (b"text", "text/plain; charset=utf-8", "inline"),
}


def test_files_are_never_executed(tmp_path: Path) -> None:
    """Whatever a file calls itself: text, a picture, or a download; alone in a sandbox."""
    run = started(tmp_path)
    for name, (content, _, _) in HOSTILE_FILES.items():
        (tmp_path / name).write_bytes(content)
    succeed("track", *HOSTILE_FILES, cwd=tmp_path)
    with serving(tmp_path) as page:
        for name, (content, kind, how) in HOSTILE_FILES.items():
            quoted = name.replace(" ", "%20").replace('"', "%22")
            path = f"/p/{tmp_path.name}/runs/{run}/raw?path={quoted}"
            answer = page.get(path)
            assert (content, kind) == (answer.body, answer.headers["content-type"]), name
            assert answer.headers["content-disposition"].startswith(how)
            assert "sandbox" in answer.headers["content-security-policy"]
            assert "nosniff" == answer.headers["x-content-type-options"]
            kept = page.get(path + "&download=1")
            assert kept.headers["content-disposition"].startswith("attachment")
            assert "application/octet-stream" == kept.headers["content-type"]
        for path in ("../../etc/passwd", "/etc/passwd", "nothing", ".leftoff/store.db"):
            assert 200 != page.get(f"/p/{tmp_path.name}/runs/{run}/raw?path={path}").status


def test_a_log_to_keep(tmp_path: Path, trusted: None) -> None:
    """All that a step printed, without what became a secret since."""
    (tmp_path / "flow.yaml").write_text("name: flow\nsteps:\n  - {id: a, run: echo printed}\n")
    succeed("run", "flow.yaml", "--run-id", "r", cwd=tmp_path)
    with serving(tmp_path) as page:
        answer = page.get(f"/p/{tmp_path.name}/runs/r/log?step=a&attempt=1")
        assert "printed\n" == answer.text and "attachment" in answer.headers["content-disposition"]
        assert 404 == page.get(f"/p/{tmp_path.name}/runs/r/log?step=nothing").status
        assert 400 == page.get(f"/p/{tmp_path.name}/runs/r/log?attempt=x").status


def test_one_of_several_is_damaged(tmp_path: Path) -> None:
    """It is told, and the others are shown; alone, it is an error."""
    good, bad = tmp_path / "good", tmp_path / "bad"
    for folder in (good, bad):
        folder.mkdir()
        started(folder, "w", "--run-id", f"run-of-{folder.name}")
    (bad / "leftoff.toml").write_text("nonsense = 1\n")
    with serving(good, bad) as page:
        answer = page.get("/")
        assert 200 == answer.status and "run-of-good" in answer.text and "leftoff.toml:1:1" in answer.text
        assert 400 == page.get("/p/bad/runs/run-of-bad").status
    with serving(bad) as page:
        assert 400 == page.get("/").status
    (bad / "leftoff.toml").unlink()  # what every test ends with opens its stores
