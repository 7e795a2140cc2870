"""A package can add a dialect."""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from leftoff.errors import Usage
from leftoff.protocols import registry
from leftoff.protocols.protocol import Dialect
from tests.cli.command import call, succeed


class Knots(Dialect):
    name = "knots"
    about = "Knots in a string"

    def recognise(self, document: dict[str, Any], path: str) -> int:
        return 90 if "knots" in document else 0


KNOTS = Knots()


def installed(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    point = EntryPoint("knots", value, registry.GROUP)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: EntryPoints([point]))


def test_found_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is listed, named and recognised like the five."""
    installed(monkeypatch, "tests.dialects.test_plugins:KNOTS")
    assert [*registry.BUILT_IN, *registry.READERS, "knots"] == [each.name for each in registry.dialects()]
    assert "knots" == registry.dialect("knots").name
    assert "knots" == registry.recognise({"knots": 3}, "x.json").name


def test_a_package_that_is_broken_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is in the error; the five can still be asked for by name."""
    installed(monkeypatch, "no.such.module:X")
    with pytest.raises(Usage, match="knots"):
        registry.dialects()
    assert "bmad" == registry.dialect("bmad").name


def test_a_dialect_that_nobody_knows(project: Path) -> None:
    """`leftoff.toml` is wrong, whatever was typed: 4, with the names of those that are known."""
    (project / "leftoff.toml").write_text('[mirror]\ndialect = "nope"\n')
    for words in (["start", "x"], ["ls"]):
        result = call(*words, cwd=project)
        assert (2, True) == (result.code, "crunch" in result.err)


@pytest.fixture
def relay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package of the page, installed: its module, and what its entry point is in an environment."""
    page = Path("docs/own-dialect.md").read_text()
    code, toml = (part.partition("```")[0] for part in (page.split("```python")[1], page.split("```toml")[1]))
    site = tmp_path / "site"
    (site / "relay-1.0.dist-info").mkdir(parents=True)
    (site / "relay.py").write_text(code)
    points = tomllib.loads(toml)["project"]["entry-points"]
    text = "".join(
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in own.items()) for group, own in points.items()
    )
    (site / "relay-1.0.dist-info/entry_points.txt").write_text(text)
    (site / "relay-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: relay\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "relay", raising=False)
    assert 61 > sum(bool(line.strip()) for line in code.splitlines())


@pytest.mark.usefixtures("relay")
def test_the_dialect_of_the_page(project: Path) -> None:
    """Listed with its example, read with everything in it, and kept in step in both directions."""
    assert "relay, for example relays/r1.json:" in succeed("dialects", cwd=project).out
    file = project / "relays/r1.json"
    file.parent.mkdir()
    legs = [{"leg": "first", "state": "run", "by": "ada"}, {"leg": "second", "state": "to go"}]
    file.write_text(json.dumps({"weather": "fine", "relay": "r1", "state": "on", "legs": legs}))
    succeed("import", str(file), "--dry-run", cwd=project)
    succeed("init", "--dialect", "relay", cwd=project)
    succeed("step", "done", "second", "--run", "r1", cwd=project)
    document = json.loads(file.read_text())
    assert "fine" == document["weather"]
    assert ["run", "run"] == [leg["state"] for leg in document["legs"]]
    file.write_text(json.dumps({**document, "state": "over"}))
    assert "completed" == succeed("show", "r1", "--json", cwd=project).json["status"]
    assert "none of the files of relay" in succeed("start", "else", cwd=project).err
    succeed("start", "relay", "--run-id", "r2", "--steps", "a,b", cwd=project)
    shutil.rmtree(project / ".leftoff")
    assert "a" == succeed("next", "--run", "r2", cwd=project).out.splitlines()[0]
    assert (
        4
        == call(
            "import", str(put_text(file, '{"relay": null, "legs": []}')), "--dialect", "relay", cwd=project
        ).code
    )


def put_text(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_dialect_that_stumbles_rejects(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    """Whatever a package does wrong with a document is no error of ours."""
    installed(monkeypatch, "tests.dialects.test_plugins:KNOTS")
    refused = call("import", str(put_text(project / "x.json", '{"knots": 3}')), cwd=project)
    assert 4 == refused.code and "the dialect knots stumbled over it, with NotImplementedError" in refused.err
