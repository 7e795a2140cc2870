"""What a store notes of itself stays small, however many runs were pruned, and is read by name."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psycopg
import pytest

from tests.cli.command import succeed
from tests.postgres.conftest import location as location
from tests.postgres.proxy import Proxy
from tests.postgres.server import Server

RULES = "[retention]\nkeep = {manual = 1}\n"


def meta(location: str, server: Server, name: str) -> int:
    """The number of its notes."""
    if "://" not in location:
        with sqlite3.connect(f"file:{location}/store.db?mode=ro", uri=True) as db:
            return int(db.execute("SELECT count(*) FROM meta").fetchone()[0])
    with psycopg.connect(server.url()) as conn:
        row = conn.execute(f'SELECT count(*) FROM "leftoff_{name}".meta'.encode()).fetchone()
        assert row is not None
        return int(row[0])


def work(project: Path, location: str, run: str) -> None:
    """A run of many commits and two checkpoints, of which the rules keep one."""
    succeed("start", "work", "--run-id", run, cwd=project, LEFTOFF_STORE=location)
    for number in range(8):
        succeed("set", f"n={number}", "--run", run, cwd=project, LEFTOFF_STORE=location)
        if number in (2, 5):
            succeed("save", "--run", run, cwd=project, LEFTOFF_STORE=location)


@pytest.mark.parametrize("end", ["finish", "pause"])
def test_runs_that_rest_leave_nothing(
    project: Path, location: str, server: Server, name: str, end: str
) -> None:
    """Nobody tries a commit of theirs again: pruning them adds no notes, be it before or after they come to rest."""
    (project / "leftoff.toml").write_text(RULES)
    work(project, location, "first")
    before = meta(location, server, name)
    succeed("prune", cwd=project, LEFTOFF_STORE=location)
    succeed(end, "--run", "first", cwd=project, LEFTOFF_STORE=location)
    for run in ("second", "third"):
        work(project, location, run)
        succeed(end, "--run", run, cwd=project, LEFTOFF_STORE=location)
    done = succeed("prune", "--json", cwd=project, LEFTOFF_STORE=location).json
    assert {"second", "third"} == {each["run_id"] for each in done["removed"]}
    assert before == meta(location, server, name)
    assert [] == succeed("fsck", "--json", cwd=project, LEFTOFF_STORE=location).json["problems"]


@pytest.mark.parametrize("words", ["step done a", "save", "track notes.md", "store info", "ls"])
def test_a_report_reads_no_notes_but_its_own(
    project: Path, proxy: Proxy, server: Server, url: str, name: str, words: str
) -> None:
    """A command reads as much from a store with thousands of notes as from one with a few."""
    (project / "notes.md").write_text("notes")
    succeed("start", "work", "--run-id", "r", "--steps", "a", cwd=project, LEFTOFF_STORE=url)
    many = f"INSERT INTO \"leftoff_{name}\".meta SELECT 'token:9:' || n, '1 1 00' FROM generate_series(1, 5000) n"
    server.tell(many)
    succeed(*words.split(), cwd=project, LEFTOFF_STORE=proxy.url(name))
    assert proxy.rows < 500
