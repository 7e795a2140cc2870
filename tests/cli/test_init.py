"""`leftoff init`: makes the store, suggests, asks nothing."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

from leftoff.engine.settings import load
from tests.cli.command import call, succeed


def test_makes_the_store(project: Path) -> None:
    """A private folder that git ignores; the page says what else is worth doing."""
    result = succeed("init", cwd=project)
    assert 0o700 == stat.S_IMODE((project / ".leftoff").stat().st_mode)
    assert "*\n" == (project / ".leftoff" / ".gitignore").read_text()
    assert f"{project / '.leftoff'}: created." in result.out
    for word in ("leftoff.toml", ".gitignore", "AGENTS.md", "leftoff start"):
        assert word in result.out
    assert [".leftoff"] == [path.name for path in project.iterdir()]


def test_twice_is_once(project: Path) -> None:
    """What is there stays as it is."""
    run = succeed("start", "x", cwd=project).out.strip()
    document = succeed("init", "--json", cwd=project).json
    assert (False, str(project), str(project / ".leftoff")) == (
        document["created"],
        document["project"],
        document["store"],
    )
    assert "already there, unchanged" in succeed("init", cwd=project).out
    assert [run] == [r["run_id"] for r in succeed("ls", "--json", cwd=project).json["runs"]]


def test_what_it_suggests_works(project: Path) -> None:
    """The settings it shows are settings; where there are some, it shows none."""
    document = succeed("init", "--json", cwd=project).json
    assert document["created"]
    (project / "leftoff.toml").write_text(document["suggestions"]["leftoff.toml"])
    assert tomllib.loads(document["suggestions"]["leftoff.toml"])
    assert 1800 == load(str(project)).heartbeat.stalled
    assert "[redaction]" not in succeed("init", cwd=project).out


def test_elsewhere(project: Path) -> None:
    """--project and --store say where; a missing project is wrong usage, an unknown protocol too."""
    (project / "site").mkdir()
    succeed("init", "--project", "site", cwd=project)
    assert (project / "site" / ".leftoff" / "store.db").exists()
    succeed("init", "--store", "deep/er/store", cwd=project)
    assert (project / "deep" / "er" / "store" / "store.db").exists()
    assert 2 == call("init", "--project", "missing", cwd=project).code
    assert 2 == call("init", "--protocol", "klingon", cwd=project).code
    assert 2 == call("init", "here", cwd=project).code


def test_the_scripts_of_a_protocol(project: Path) -> None:
    """Written where they are asked for, and where there are none; a protocol that names none has none."""
    own = project / ".claude/utils/load-checkpoint.sh"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    done = succeed("init", "--protocol", "claude-checkpoints", "--utils", "--json", cwd=project).json
    assert 4 == len(done["written"]) and "mine" == own.read_text()
    script = project / ".claude/utils/save-checkpoint.sh"
    assert 0o755 == stat.S_IMODE(script.stat().st_mode)
    assert script.read_text().endswith('exec leftoff compat save-checkpoint "$@"\n')
    assert (
        []
        == succeed("init", "--protocol", "claude-checkpoints", "--utils", "--json", cwd=project).json[
            "written"
        ]
    )
    for words in (("--utils",), ("--protocol", "bmad", "--utils")):
        other = project / words[-2] if len(words) > 1 else project / "other"
        other.mkdir()
        (other / ".leftoff").mkdir()
        assert 2 == call("init", *words, cwd=other).code


def test_a_new_store_with_a_protocols_files_is_created(project: Path) -> None:
    """The files are imported while the store is made: it is still a new one."""
    state = project / "_bmad-output/.runs/main/dev/state.json"
    state.parent.mkdir(parents=True)
    state.write_text('{"run_id": "r", "status": "running", "steps_completed": [1], "total_steps": 3}')
    assert succeed("init", "--protocol", "bmad", "--json", cwd=project).json["created"]
    assert not succeed("init", "--protocol", "bmad", "--json", cwd=project).json["created"]
