"""What a user gets: the built wheel, the bare install, and the names that `import leftoff` offers."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import leftoff

ROOT = Path(__file__).parents[2]
# Each costs more than a bare interpreter's start, and `import leftoff` needs none of them.
HEAVY = {
    "asyncio",
    "dataclasses",
    "logging",
    "minijinja",
    "msgspec",
    "psycopg",
    "rich",
    "subprocess",
    "yaml",
}


def call(*command: str | Path, cwd: Path) -> str:
    """What a command prints, given that it succeeds."""
    result = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, timeout=120)
    assert 0 == result.returncode, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this tree with the build backend that is already installed."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder)
    call(sys.executable, "-m", "pip", "wheel", *options, ROOT, cwd=folder)
    (built,) = folder.glob("leftoff-*.whl")
    return built


def test_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    """Every source file, the typing marker, every query, the licence and the command; no tests."""
    info = f"leftoff-{leftoff.__version__}"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    source = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "leftoff").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    metadata = {f"{info}.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD", "licenses/LICENSE")}
    assert source | metadata | {f"{info}.data/scripts/leftoff"} == names
    assert "leftoff/py.typed" in names
    assert any(name.endswith(".sql") for name in names)


def test_bare_install(wheel: Path, tmp_path: Path) -> None:
    """The installed wheel works with nothing beside it but the dependencies it declares."""
    bare = tmp_path / "bare"
    call(sys.executable, "-m", "venv", "--without-pip", bare, cwd=tmp_path)
    python = bare / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    call(*pip, "install", "--quiet", "--no-compile", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    (site_packages,) = bare.glob("lib/python*/site-packages")
    for name in core_requirements():
        link_distribution(name, site_packages)

    project = tmp_path / "project"
    project.mkdir()
    script = "import leftoff; print(leftoff.__file__); leftoff.start('first').finish()"
    assert str(site_packages) in call(python, "-c", script, cwd=project)
    assert json.loads(call(bare / "bin" / "leftoff", "fsck", "--json", cwd=project))["ok"]


def core_requirements() -> set[str]:
    """The names of all distributions that leftoff needs without any extra, and that those need in turn."""
    from packaging.requirements import Requirement

    found: set[str] = set()
    waiting = ["leftoff"]
    while waiting:
        for line in importlib.metadata.requires(waiting.pop()) or ():
            requirement = Requirement(line)
            applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if applies and requirement.name not in found:
                found.add(requirement.name)
                waiting.append(requirement.name)
    return found


def link_distribution(name: str, folder: Path) -> None:
    """Make one installed distribution visible in another environment's folder, without a network."""
    distribution = importlib.metadata.distribution(name)
    for file in distribution.files or ():
        target = folder / file
        if ".." not in file.parts and "__pycache__" not in file.parts:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(Path(str(distribution.locate_file(file))))


def test_installed_command_is_the_script_file() -> None:
    """The command starts with our own few lines, not with a generated entry point that imports `re`."""
    installed = (Path(sys.executable).parent / "leftoff").read_text().splitlines()
    assert (ROOT / "bin" / "leftoff").read_text().splitlines()[1:] == installed[1:]
    assert re.fullmatch(r"#!/.*python[0-9.]*", installed[0])


def test_version_is_the_installed_one() -> None:
    """`leftoff.__version__` and the package's metadata agree."""
    assert importlib.metadata.version("leftoff") == leftoff.__version__


def test_public_names_resolve() -> None:
    """Every exported name is there, and listed for those who explore."""
    assert [] == [name for name in leftoff.__all__ if getattr(leftoff, name) is None]
    assert {*leftoff.__all__} <= {*dir(leftoff)}


def test_unknown_name_is_an_attribute_error() -> None:
    """Loading names on demand does not swallow a misspelt one."""
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(leftoff, "no_such_name")  # noqa: B009 - as a literal, mypy would refuse it


def test_import_is_light(tmp_path: Path) -> None:
    """`import leftoff` loads no heavy module that a bare interpreter has not loaded already."""
    script = "import sys; bare = set(sys.modules); import leftoff; print(*(set(sys.modules) - bare))"
    loaded = call(sys.executable, "-c", script, cwd=tmp_path).split()
    assert "leftoff" in loaded
    assert set() == HEAVY & {name.partition(".")[0] for name in loaded}


def test_no_file_names_a_registry_host() -> None:
    """The pins are names and versions only, so that any mirror can serve them."""
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    assert [] == [line for line in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+", line)]
    assert not os.path.exists(ROOT / "uv.lock") or "uv.lock" in (ROOT / ".gitignore").read_text()
