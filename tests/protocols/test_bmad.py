"""bmad by the command: numbers of steps, events, copies, ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leftoff.protocols.document_draft import State
from tests.cli.command import call, succeed
from tests.protocols.examples import BMAD
from tests.protocols.files import put

RUN = "dev-story-20260227-143022"
STATE = f"_bmad-output/.runs/main/{RUN}/state.json"


@pytest.fixture
def bmad(project: Path) -> Path:
    """A project that follows bmad."""
    (project / "leftoff.toml").write_text('[protocol]\nname = "bmad"\n')
    return project


def start(project: Path, *words: str) -> None:
    succeed("start", "dev-story", "--run-id", RUN, *words, cwd=project)


def state(project: Path, *keys: str) -> Any:
    found = json.loads((project / STATE).read_text())
    return tuple(found[key] for key in keys) if keys else found


# -- numbers


@pytest.mark.parametrize(
    ("paths", "expected"),
    [("a b", [1, 2]), ("3 1", [3, 1]), ("a 2 b", [1, 2, 3]), ("a b 7", [1, 2, 7]), ("01 1", [2, 1])],
)
def test_numbers_of_steps(paths: str, expected: list[int]) -> None:
    """Its own, where a step is called by one; else its place, or the next that is free."""
    records: Any = {("step", path): {"order": place} for place, path in enumerate(paths.split())}
    found = State("r", records, 0).numbers
    assert expected == [found[path] for path in paths.split()]


def test_a_step_that_is_called_by_a_number_has_that_number(bmad: Path) -> None:
    """`step done 3` is step 3, whatever was done before; a gap is asked about, and not forgotten."""
    start(bmad)
    succeed("step", "done", "3", cwd=bmad)
    keys = ("steps_completed", "current_step", "total_steps", "resume_from_step")
    assert ([3], 3, 3, 4) == state(bmad, *keys)
    succeed("step", "done", "1", cwd=bmad)
    assert ([1, 3], 3, 3, 4) == state(bmad, *keys)
    found = call("verify", RUN, "--json", cwd=bmad)
    (gap,) = found.json["findings"]
    assert (7, "progress.illegal", "2") == (found.code, gap["code"], gap["subject"])


# -- files


def test_copies_of_what_an_imported_run_produced(bmad: Path) -> None:
    """A file that is named in a document and there is copied; one that may hold secrets is not."""
    (bmad / "made.md").write_text("made")
    (bmad / ".env").write_text("A=1")
    made = [{"step": 1, "name": name, "path": name} for name in ("made.md", ".env")]
    put(bmad / STATE, {**BMAD["state"], "run_id": RUN, "session_branch": "main", "artefacts_produced": made})
    succeed("import", ".", cwd=bmad)
    place = (bmad / STATE).parent / "artefacts"
    assert {"step-01-made.md": "made"} == {p.name: p.read_text() for p in place.iterdir()}


def test_an_artefact_that_is_added_by_hand_is_looked_at(bmad: Path) -> None:
    """Its hash is known from then on, as after an import, and it has a copy."""
    start(bmad, "--steps", "a,b")
    (bmad / "x.md").write_text("hello")
    put(bmad / STATE, {**state(bmad), "artefacts_produced": [{"step": 1, "name": "x", "path": "x.md"}]})
    about = json.loads(succeed("get", "artifact/x", RUN, cwd=bmad).out)
    assert (5, True) == (about["size"], about["hash"].startswith("sha256:2cf24dba"))
    assert [{"step": 1, "name": "x", "path": "x.md"}] == state(bmad)["artefacts_produced"]
    assert "hello" == ((bmad / STATE).parent / "artefacts/step-01-x.md").read_text()


# -- ids and times


def test_an_id_of_12_characters_is_found_by_its_first_6(bmad: Path) -> None:
    """The protocol's commands go by 6; the document keeps what it says."""
    document = {**BMAD["state"], "run_id": RUN, "session_branch": "main", "checkpoint_id": "a3f9b2c4d5e6"}
    put(bmad / STATE, document)
    succeed("import", ".", cwd=bmad)
    assert RUN == succeed("show", "a3f9b2", "--json", cwd=bmad).json["run_id"]
    succeed("note", "x", "--run", RUN, cwd=bmad)
    assert ("a3f9b2c4d5e6",) == state(bmad, "checkpoint_id")


def test_gaps_of_a_document_are_asked_about(bmad: Path) -> None:
    """`steps_completed: [1, 2, 5]`: 3 and 4 are still to be done, and a person is asked."""
    document = {**BMAD["state"], "run_id": RUN, "session_branch": "main", "artefacts_produced": []}
    put(bmad / STATE, {**document, "steps_completed": [1, 2, 5], "last_checkpoint": None, "current_step": 6})
    succeed("import", ".", cwd=bmad)
    found = call("verify", RUN, "--json", cwd=bmad)
    asked = [
        finding["subject"] for finding in found.json["findings"] if finding["code"] == "progress.illegal"
    ]
    assert (7, ["3"]) == (found.code, asked)


# -- what the protocol asks for in passing


def test_every_run_is_listed_to_go_back_to(bmad: Path) -> None:
    """`resume --list` is about all unfinished runs of the branch; of one that is named, about that alone."""
    for name in ("one", "two"):
        succeed("start", name, "--run-id", name, cwd=bmad)
        succeed("save", "--run", name, cwd=bmad)
    succeed("start", "other", "--run-id", "other", "--branch", "elsewhere", cwd=bmad)
    found = succeed("resume", "--list", "--json", cwd=bmad).json["checkpoints"]
    assert ["two", "one"] == [checkpoint["run_id"] for checkpoint in found]
    text = succeed("resume", "--list", cwd=bmad).out
    assert all(checkpoint["checkpoint_id"] in text for checkpoint in found)
    assert ["one: 1 checkpoint", "two: 1 checkpoint"] == sorted(text.splitlines()[::2])
    assert 1 == len(succeed("resume", "one", "--list", "--json", cwd=bmad).json["checkpoints"])


def test_a_step_keeps_only_what_persists(bmad: Path) -> None:
    """`variables_to_persist` holds for `leftoff set` inside of the step too, and for no other step or run."""
    persisted = {"LEFTOFF_PERSIST": "a\nb", "LEFTOFF_STEP": "create", "LEFTOFF_RUN": RUN}
    start(bmad)
    told = succeed("set", "a=1", "c=3", cwd=bmad, **persisted).err
    assert "not kept: c. The variables_to_persist of create: a, b." in told
    succeed("set", "d=4", cwd=bmad, **{**persisted, "LEFTOFF_PERSIST": ""})
    succeed("start", "else", "--run-id", "else", cwd=bmad)
    assert "" == succeed("set", "e=5", "--run", "else", cwd=bmad, **persisted).err
    assert {"a": 1, "d": 4} == state(bmad, "session_variables")[0]


def test_a_step_is_told_what_persists(bmad: Path) -> None:
    """Its process finds the names in its environment; that of a step without any finds none."""
    (bmad / "w.yaml").write_text(
        "name: w\nsteps:\n"
        "  - {id: a, run: 'echo \"[$LEFTOFF_PERSIST]\"', checkpoint: {variables_to_persist: [x, y]}}\n"
        "  - {id: b, run: 'echo \"[$LEFTOFF_PERSIST]\"', needs: [a]}\n"
    )
    succeed("run", "w.yaml", cwd=bmad, LEFTOFF_PERSIST="outer")
    told = succeed("logs", cwd=bmad).out
    assert "[x\ny]" in told and "[]" in told


def test_the_summary_of_the_end_is_in_the_files(bmad: Path) -> None:
    """And is read back from them, as it is changed there."""
    start(bmad, "--steps", "a")
    succeed("finish", "--summary", "All & well", cwd=bmad)
    page = (bmad / STATE).with_name("workflow-status.md").read_text()
    assert ("All & well",) == state(bmad, "summary") and "- Summary: All & well" in page
    put(bmad / STATE, {**state(bmad), "summary": "Done"})
    assert "Done" == succeed("get", "run/summary", RUN, cwd=bmad).out.strip()
