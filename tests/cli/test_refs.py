"""REFs through the command, MCP and Python: one parser and one resolver behind all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import leftoff
from leftoff.agents.mcp_tools import Tools
from tests.cli.command import call, succeed


def history(folder: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = succeed("log", "r1", "--json", cwd=folder).json["checkpoints"]
    return found


@pytest.fixture
def pruned(project: Path) -> Path:
    """A run of eleven versions of which 2 to 9 are pruned."""
    succeed("start", "site", "--run-id", "r1", "--steps", "a", cwd=project)
    ids = [succeed("save", cwd=project).out.strip() for _ in range(10)]
    with leftoff.open(project / ".leftoff") as store:
        store.prune("r1", ids[:8])
    return project


def test_a_pruned_version_is_gone_in_every_face(pruned: Path) -> None:
    """No verb, tool or call takes it for another; each names what is left around it, and nothing is changed."""
    before = history(pruned)
    left = "is gone: it was pruned. Still there around it: r1@10."
    for words in (
        ("show", "r1@2"),
        ("diff", "r1@2", "r1"),
        ("rollback", "r1@2"),
        ("fork", "r1@2"),
        ("resume", "r1@2"),
        ("resume", "r1", "--checkpoint", "2"),
        ("restore", "r1@2", "f"),
        ("cat", "r1@2:f"),
        ("verify", "@2"),
        ("get", "step/a", "site@2"),
    ):
        done = call(*words, cwd=pruned)
        assert 3 == done.code and left in done.err, str(done)
    with pytest.raises(leftoff.Pruned, match="Still there around it"):
        Tools(str(pruned), None).show_run("r1@2")
    with leftoff.open(pruned / ".leftoff") as store:
        with pytest.raises(leftoff.Pruned, match="Still there around it"):
            store.get("r1@2")
        view = store.get("SITE")
        for ref in ("2", 2, "@2"):
            with pytest.raises(leftoff.Pruned, match="Still there around it"):
                view.at(ref)
        assert 10 == view.at("10").seq == view.at("id:" + str(before[-1]["checkpoint_id"])).seq
    assert before == history(pruned)


def test_a_checkpoint_that_is_not_there(pruned: Path) -> None:
    """`resume --checkpoint` says so, with its own code."""
    for words in (("--checkpoint", "NONE"), ("r1", "--checkpoint", "NONE"), ("--checkpoint", "site")):
        done = call("resume", *words, "--json", cwd=pruned)
        assert (3, "no_checkpoint") == (done.code, done.json["error"]["code"]), str(done)


def test_names_and_short_ids(project: Path) -> None:
    """A protocol's own id is known by four characters where that is unique; names by any case; in every face."""
    succeed("start", "Nature", "--run-id", "n1", "--title", "Größe", cwd=project)
    first = succeed("save", cwd=project).out.strip()
    with leftoff.open(project / ".leftoff") as store:
        number = store._store.read(lambda view: view.list_runs({})[0].run)
        store._store.write(lambda tx: tx.add_alias(number, 2, "a3f9b2zz"))
        assert ["n1"] * 2 == [store.get(name).id for name in ("NATURE", "GRÖSSE")]
        assert 2 == store.get("a3f9").at("2").seq == store.get("n1").at(first[:4]).seq
    for ref in ("a3f9", "n1@a3f9", "a3f9b2zz", first[:4], f"n1@{first[:4]}", f"n1@id:{first[:5]}"):
        assert 2 == succeed("show", ref, "--json", cwd=project).json["head"]["seq"], ref
        assert 2 == Tools(str(project), None).show_run(ref)["head"]["seq"]  # type: ignore[index]
    assert 3 == call("show", "a3f", cwd=project).code


def test_an_archived_run_comes_back_only_for_what_is_there(project: Path) -> None:
    """A REF is found before anything is written to the store. A fork leaves the run archived."""
    succeed("start", "site", "--run-id", "old", cwd=project)
    succeed("finish", cwd=project)
    succeed("archive", "old", cwd=project)
    for words in (("resume", "old@99"), ("rollback", "site~9"), ("fork", "old@99")):
        assert 3 == call(*words, cwd=project).code
        assert {"runs": [], "archived": 1} == succeed("ls", "--json", cwd=project).json
    for ref in ("old@1", "old@99", "old~0", "site@1"):
        assert 3 == call("undelete", ref, cwd=project).code, ref
        assert {"runs": [], "archived": 1} == succeed("ls", "--json", cwd=project).json
    succeed("fork", "SITE", "--run-id", "new", cwd=project)
    assert ["new"] == [run["run_id"] for run in succeed("ls", "--json", cwd=project).json["runs"]]


def test_a_phase_of_dotagent_is_approved(project: Path) -> None:
    """`approve RUN PHASE` records it as the protocol does; the phase itself stays as it is."""
    succeed("init", "--protocol", "dotagent", cwd=project)
    run = succeed("start", "dotagent", cwd=project).out.strip()
    succeed("approve", run, "REQUIREMENTS", "--note", "fine", cwd=project)
    assert "already" in succeed("approve", run, "REQUIREMENTS", cwd=project).err
    found = succeed("show", run, "--json", cwd=project).json
    assert "approved" == found["records"]["approval"]["REQUIREMENTS"]["status"]
    assert "pending" == next(s["status"] for s in found["step_records"] if s["step"] == "REQUIREMENTS")
    (state,) = [p for p in project.rglob("*.json") if "user_checkpoints" in p.read_text()]
    assert '"phase":"REQUIREMENTS"' in state.read_text().replace(" ", "")


def test_a_version_is_no_run(project: Path) -> None:
    """A verb about a whole run refuses one version of it; so does the run of the environment, archived or not."""
    succeed("start", "site", "--run-id", "r", "--steps", "a", cwd=project)
    saved = succeed("save", cwd=project).out.strip()
    before = succeed("show", "r", "--json", cwd=project).json["head"]
    for ref in ("r@1", "r~0", saved):
        for words in (
            ("stop", ref),
            ("unblock", ref),
            ("approve", ref),
            ("archive", ref),
            ("rm", ref, "--yes"),
            ("handover", ref, "--to", "claude"),
            ("note", "x", "--run", ref),
        ):
            done = call(*words, cwd=project)
            assert 2 == done.code and "is one version of run r" in done.err, str(done)
        assert 2 == call("show", cwd=project, LEFTOFF_RUN=ref).code
    assert before == succeed("show", "r", "--json", cwd=project).json["head"]
    succeed("finish", cwd=project)
    succeed("archive", "r", cwd=project)
    assert 2 == call("show", cwd=project, LEFTOFF_RUN="r@1").code
    assert "r" == succeed("show", "--json", cwd=project, LEFTOFF_RUN="r").json["run_id"]


def test_an_empty_name_is_none(project: Path) -> None:
    """Also where without a name all are listed."""
    for name in ("a", "b"):
        succeed("start", "site", "--run-id", name, cwd=project)
        succeed("save", "--run", name, cwd=project)
    assert 2 == len(succeed("resume", "--list", "--json", cwd=project).json["checkpoints"])
    assert 2 == call("resume", "", "--list", cwd=project).code


def test_a_run_id_may_be_shortened(project: Path) -> None:
    """To a unique prefix of at least four characters; a name that is meant exactly goes before it."""
    for run in ("nightly-20260101-0900", "nightly-20260102-0900", "release-7"):
        succeed("start", "site", "--run-id", run, "--title", run[:7], cwd=project)
    assert "release-7" == succeed("show", "rele", "--json", cwd=project).json["run_id"]
    assert "release-7" == succeed("show", "release-@1", "--json", cwd=project).json["run_id"]
    assert "release-7" == succeed("save", "rele", "--json", cwd=project).json["run_id"]
    several = call("show", "nightly-2026", cwd=project)
    assert 2 == several.code and "nightly-20260101-0900" in several.err and "nightly-20260102" in several.err
    assert 3 == call("show", "rel", cwd=project).code
    assert "nightly-20260102-0900" == succeed("show", "NIGHTLY", "--json", cwd=project).json["run_id"]
