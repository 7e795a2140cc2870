"""Secrets in a protocol's documents: they stay in the person's file, and reach nothing else on the disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import call, succeed
from tests.protocols.examples import BMAD, CLAUDE, CRUNCH, DOTAGENT, SITEBUILDER
from tests.protocols.files import BMAD_STATE, CLAUDE_FILE, CRUNCH_PLACE, SITEBUILDER_FILE, put

NAMED, SHAPED = "hunter2-correct-horse", "sk-ant-api03-" + "aB3" * 14
DOCUMENTS: dict[str, dict[str, dict[str, Any]]] = {
    "bmad": {BMAD_STATE: BMAD["state"]},
    "crunch": {f"{CRUNCH_PLACE}/{CRUNCH['full']['checkpoint_id']}.yaml": CRUNCH["full"]},
    "dotagent": {f"memory/state/{part}.json": each for part, each in DOTAGENT["with tasks"].items()},
    "sitebuilder": {SITEBUILDER_FILE: SITEBUILDER["schema"]},
    "claude-checkpoints": {CLAUDE_FILE: CLAUDE["format"]},
}
TEXTS = ("agent_notes", "notes", "last_error", "body", "output_summary", "resume_instructions", "error")


def with_secrets(value: Any) -> Any:
    """A document with a secret in each mapping, and in each text that somebody may write freely."""
    if isinstance(value, dict):
        texts = {key: f"log in with {SHAPED} now" for key in TEXTS if isinstance(value.get(key), str)}
        return {**{key: with_secrets(item) for key, item in value.items()}, **texts, "db_password": NAMED}
    return [with_secrets(item) for item in value] if isinstance(value, list) else value


def leaks(folder: Path) -> list[str]:
    """Files with one of the secrets in them; and files that others may read."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            if NAMED.encode() in content or SHAPED.encode() in content or path.stat().st_mode & 0o077:
                found.append(str(path.relative_to(folder)))
    return found


@pytest.mark.parametrize("name", DOCUMENTS)
def test_nothing_of_a_secret_reaches_the_disk(project: Path, name: str) -> None:
    """Taken in, gone on with, edited, and broken: neither the store nor the sync's memory has it, nor what is said;
    the person's file keeps it as long as it can be read."""
    documents = {path: with_secrets(document) for path, document in DOCUMENTS[name].items()}
    for path, document in documents.items():
        put(project / path, document)
        (project / path).chmod(0o644)
    succeed("init", "--protocol", name, cwd=project)
    run = succeed("ls", "--all", "--json", cwd=project).json["runs"][0]["run_id"]
    told = [succeed("set", "a=1", "--run", run, cwd=project), succeed("save", "--run", run, cwd=project)]
    assert [] == leaks(project / ".leftoff")
    place = next(path for path in documents if (project / path).exists())
    assert NAMED in (project / place).read_text()
    told += edit(project / place, run, project)
    assert [] == leaks(project / ".leftoff")
    text = (project / place).read_text()
    (project / place).write_text(text[: len(text) * 9 // 10])
    told += [succeed("set", "b=2", "--run", run, cwd=project), call("brief", run, cwd=project)]
    assert [] == leaks(project / ".leftoff")
    pages = [path for path in project.rglob("*.md") if ".leftoff" not in path.parts]
    for said in [*(each.out + each.err for each in told), *(path.read_text() for path in pages)]:
        assert NAMED not in said and SHAPED not in said


def edit(path: Path, run: str, project: Path) -> list[Any]:
    """What the file says is changed behind the secret, and the secret itself."""
    path.write_text(path.read_text().replace(NAMED, f"{NAMED}-2"))
    return [succeed("show", run, cwd=project), succeed("set", "a=2", "--run", run, cwd=project)]


def test_a_secret_that_stays_the_same_is_no_change(project: Path) -> None:
    """Two documents are compared, one of them kept without the secret: an edit beside it makes one version, and what is
    looked at again makes none."""
    path = put(project / BMAD_STATE, with_secrets(BMAD["state"]))
    succeed("init", "--protocol", "bmad", cwd=project)
    run = succeed("ls", "--json", cwd=project).json["runs"][0]["run_id"]
    before = succeed("show", run, "--json", cwd=project).json["head"]["seq"]
    document = json.loads(path.read_text())
    put(path, {**document, "session_variables": {**document["session_variables"], "more": 1}})
    for _ in range(3):
        shown = succeed("show", run, "--json", cwd=project).json
    assert (before + 1, 1) == (shown["head"]["seq"], shown["variables"]["more"])
    assert "conflict" not in shown["records"]
