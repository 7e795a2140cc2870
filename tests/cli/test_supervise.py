"""`leftoff supervise`: told once, by whatever way is configured; what died is resumed where nothing is in the way."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import call, succeed
from tests.cli.people import step_of, story
from tests.cli.runs import files_below, started
from tests.verify.situations import Place
from tests.workflow.driving import mark, until, wait

pytestmark = pytest.mark.usefixtures("trusted")


def looked(folder: Path, *words: str) -> list[tuple[str, str]]:
    """One look: the events, with their runs."""
    out = succeed("supervise", "--once", "--json", *words, cwd=folder).out
    *events, last = map(json.loads, out.splitlines())
    assert "end" == last["event"]
    return [(told["event"], told["run"]["run_id"]) for told in events]


def test_each_change_once(tmp_path: Path) -> None:
    """Blocked, failed, waiting for a person, finished: each is told at the next look, and never again."""
    run = started(tmp_path, "work", "--steps", "a,b", "--run-id", "w")
    assert [] == looked(tmp_path)
    succeed("step", "block", "a", "--error", "no", cwd=tmp_path)
    assert [("blocked", "w")] == looked(tmp_path)
    assert [] == looked(tmp_path)
    succeed("unblock", run, cwd=tmp_path)
    assert [] == looked(tmp_path)
    succeed("finish", "--status", "failed", cwd=tmp_path)
    assert [("failed", "w")] == looked(tmp_path)
    story(tmp_path)
    assert [("waiting", "story-1")] * 2 == looked(tmp_path)
    succeed("finish", "--run", "story-1", "--status", "abandoned", cwd=tmp_path)
    assert [("finished", "story-1")] == looked(tmp_path)
    assert [] == looked(tmp_path)


MINUTE = 60_000


def later(place: Place, minutes: float) -> None:
    """As if so much time had passed since the last sign of life."""
    back = int(minutes * MINUTE)
    place.tamper(
        f"UPDATE version SET at = at - {back}",
        f"UPDATE lease SET beat = beat - {back}, since = since - {back}",
        f"UPDATE run SET updated_at = updated_at - {back} WHERE run > 0",
    )


@pytest.mark.parametrize("session", [[], ["--session", "s1"]])
def test_quiet_and_stalled_by_time(place: Place, session: list[str]) -> None:
    """Over 10 minutes without a sign of life is quiet, over 30 stalled: each told once; then alive again, and anew."""
    place.start("--steps", "a,b", *session)
    succeed("step", "start", "a", cwd=place.folder)
    for minutes, health in ((0, None), (9, None), (2, "quiet"), (1, None), (20, "stalled"), (60, None)):
        later(place, minutes)
        expected = [] if health is None else [("health", "r")]
        assert (minutes, expected) == (minutes, looked(place.folder))
        if health is not None:
            assert health == place.show()["health"]
    succeed("step", "done", "a", cwd=place.folder)
    succeed("step", "start", "b", cwd=place.folder)
    assert [("health", "r")] == looked(place.folder)
    assert [] == looked(place.folder)
    later(place, 11)
    assert [("health", "r")] == looked(place.folder)


def test_quiet_and_stalled_as_configured(place: Place) -> None:
    """`[heartbeat]` says when a run is quiet, and when stalled."""
    place.file("leftoff.toml", '[heartbeat]\nquiet = "1h"\nstalled = "2h"\n')
    place.start("--steps", "a")
    succeed("step", "start", "a", cwd=place.folder)
    for minutes, health in ((45, "alive"), (30, "quiet"), (50, "stalled")):
        later(place, minutes)
        told = succeed("supervise", "--once", cwd=place.folder).out
        assert (minutes, health) == (minutes, place.show()["health"])
        assert (health != "alive") == ("no sign of life" in told)


def test_what_ended_before_is_no_news(tmp_path: Path) -> None:
    """The first look says nothing of runs that were over."""
    started(tmp_path)
    succeed("finish", cwd=tmp_path)
    assert [] == looked(tmp_path)


def test_text(tmp_path: Path) -> None:
    """For people it is a line with the time."""
    started(tmp_path, "work", "--steps", "a", "--run-id", "w")
    succeed("step", "block", "a", "--error", "no", cwd=tmp_path)
    assert succeed("supervise", "--once", cwd=tmp_path).out.endswith("Z  w is blocked.\n")


def test_nothing_is_made(tmp_path: Path) -> None:
    """Without a store there is nothing to watch, and nothing is made."""
    assert [] == looked(tmp_path)
    assert [] == files_below(tmp_path)


def test_a_command(tmp_path: Path) -> None:
    """The command is run for each change, with the event on stdin and its words in the environment."""
    (tmp_path / "leftoff.toml").write_text(
        "[supervise]\ncommand = 'cat >> told.json; echo \"$LEFTOFF_EVENT $LEFTOFF_RUN\" >> told.txt; exit 3'\n"
    )
    started(tmp_path, "work", "--steps", "a", "--run-id", "w")
    succeed("step", "block", "a", "--error", "no", cwd=tmp_path)
    for _ in range(2):
        done = succeed("supervise", "--once", cwd=tmp_path)
    assert "blocked w\n" == (tmp_path / "told.txt").read_text()
    assert "blocked" == json.loads((tmp_path / "told.json").read_text())["event"]
    assert "" == done.err


@contextmanager
def listening() -> Iterator[tuple[str, list[Any]]]:
    """A server on this machine; its address, and what was posted to it."""
    got: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *words: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hook", got
        finally:
            server.shutdown()
            thread.join()


def test_a_url(tmp_path: Path) -> None:
    """Each change is posted once; a URL that does not answer is said, and holds nothing up."""
    started(tmp_path, "work", "--steps", "a,b", "--run-id", "w")
    with listening() as (url, got):
        (tmp_path / "leftoff.toml").write_text(f'[supervise]\nurl = "{url}"\n')
        succeed("step", "block", "a", "--error", "no", cwd=tmp_path)
        for _ in range(2):
            succeed("supervise", "--once", cwd=tmp_path)
        assert [("blocked", "w")] == [(told["event"], told["run"]["run_id"]) for told in got]
    succeed("finish", cwd=tmp_path)
    done = succeed("supervise", "--once", cwd=tmp_path)
    assert "could not be notified" in done.err and "w is completed." in done.out


@pytest.mark.parametrize(
    "line", ["urls = 'x'", "url = 'ftp://x'", "every = 0", "limit = 'many'", "command = 3"]
)
def test_wrong_settings(tmp_path: Path, line: str) -> None:
    """A wrong word in [supervise] is an error that says so."""
    (tmp_path / "leftoff.toml").write_text(f"[supervise]\n{line}\n")
    done = call("supervise", "--once", cwd=tmp_path)
    assert 2 == done.code and "leftoff.toml:2:1: " in done.err and "supervise" in done.err


def test_deadlines_are_looked_at(tmp_path: Path) -> None:
    """An approval whose deadline has passed is rejected by whoever looks; only what still waits is told."""
    story(tmp_path, deadline=1_000)
    assert [("waiting", "story-1")] == looked(tmp_path)
    found = step_of(tmp_path, "story-1", "sign-off")
    assert ("failed", "rejected") == (found["status"], found["error"]["type"])
    assert [] == looked(tmp_path)


FLOW = f"""
name: flow
steps:
  - id: a
    run: "{mark("a")}; {wait()}"
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    assert [] == made.close(), "these processes of steps were left running"


def killed(place: Place, text: str = FLOW) -> None:
    """A run whose driver and step are gone."""
    place.write(text)
    place.commit("flow")
    driver = place.run()
    until(lambda: place.starts("a"), "the start of a")
    driver.kill_all()


def test_the_dead_are_told_and_restarted(place: Place) -> None:
    """Dead is told once; --restart resumes it where the verdict is resume or warn, and it runs to its end."""
    killed(place)
    assert [("health", "r")] == looked(place.folder)
    assert [] == looked(place.folder)
    place.file("gate")
    assert [("restart", "r")] == looked(place.folder, "--restart")
    until(lambda: place.show()["status"] == "completed", "the end of the run")
    assert 2 == len(place.starts("a"))
    assert [("finished", "r")] == looked(place.folder, "--restart")


def test_what_asks_is_left_to_a_person(place: Place) -> None:
    """A verdict of ask is not restarted; why is said once."""
    killed(place, FLOW.replace("- id: a", "- id: a\n    idempotent: false"))
    first = succeed("supervise", "--once", "--restart", cwd=place.folder)
    assert "is not restarted: step.not_idempotent" in first.err
    again = succeed("supervise", "--once", "--restart", cwd=place.folder)
    assert ("", "") == (again.out, again.err)
    assert 1 == len(place.starts("a"))


def test_restarts_have_a_limit_and_pauses(place: Place) -> None:
    """A run that dies at once each time is tried `limit` times, and not before its pause is over."""
    (place.folder / "leftoff.toml").write_text("[supervise]\nlimit = 2\nbackoff = 3600\n")
    killed(place)
    memory = place.folder / ".leftoff" / "supervise.json"
    assert ("restart", "r") in looked(place.folder, "--restart")
    for number in (2, 3):
        until(lambda wanted=number: len(place.starts("a")) >= min(wanted, 3), "another start")  # type: ignore[misc]
        kill_driver(place)
        assert "restart" not in [event for event, _ in looked(place.folder, "--restart")]
        known = json.loads(memory.read_text())
        known["r"]["restart_after"] = 0
        memory.write_text(json.dumps(known))
        told = [event for event, _ in looked(place.folder, "--restart")]
        assert (number == 2) == ("restart" in told)


def kill_driver(place: Place) -> None:
    """Whoever drives the run, and what it started."""
    import os
    import signal

    from leftoff.store.sqlite import SqliteStore

    store = SqliteStore(str(place.folder / ".leftoff"))
    lease = store.read(lambda view: view.lease(view.find_run("r").run))  # type: ignore[union-attr]
    store.close()
    assert lease is not None and lease.process is not None
    os.kill(lease.process.pid, signal.SIGSTOP)
    victims = place.processes()
    os.kill(lease.process.pid, signal.SIGKILL)
    for pid in victims:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    until(lambda: "dead" == place.show()["health"], "its death")
