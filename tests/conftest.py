"""What every test may rely on: a project folder of its own, and a clean store at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.cli import command
from tests.syncs import syncs

# Before any test imports them, so that it makes no difference which one does so first.
pytest.register_assert_rewrite("tests.contract.rules", "tests.contract.scribe")

# A disk that syncs slowly is no reason to fail. What `make test` tries is the same each time: it judges a change.
# `make crash` looks for what nobody has thought of.
OF_AGENTS = ("CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "GEMINI_CLI")  # in the shell of an agent
THOROUGH = os.environ.get("LEFTOFF_HYPOTHESIS") == "thorough"
settings.register_profile(
    "leftoff",
    max_examples=200 if THOROUGH else 50,
    deadline=None,
    print_blob=True,
    derandomize=not THOROUGH,
)
settings.load_profile("leftoff")


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may be driven by leftoff; the tests must not see it."""
    for name in [name for name in os.environ if name.startswith("LEFTOFF_") or name in OF_AGENTS]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session", autouse=True)
def own_user_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a user trusts, and the key that shows what was made here, are not those of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("user")))
        yield


@pytest.fixture(scope="session", autouse=True)
def disk_is_not_waited_for() -> Iterator[None]:
    with syncs(False):
        yield


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's project is trusted, as `--trust` does it."""
    monkeypatch.setenv("LEFTOFF_TRUST", "1")


@pytest.fixture(autouse=True)
def stores_end_clean(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every store that a test leaves under its tmp_path passes fsck, unless it is marked `damages_store`."""
    folder: Path | None = None
    if "tmp_path" in request.fixturenames:
        folder = request.getfixturevalue("tmp_path")
    command.open_before = command.open_databases()
    yield
    if folder is None or request.node.get_closest_marker("damages_store"):
        return
    import leftoff

    for path in stores_under(folder):
        store = leftoff.open(path)
        try:
            report = store.fsck()
        finally:
            store.close()
        assert report.ok, f"{path} is damaged: {report.problems}"


def stores_under(folder: Path) -> list[Path]:
    """The `.leftoff` folders below a folder that hold a database."""
    found = []
    for parent, folders, _ in os.walk(folder):
        if ".leftoff" in folders:
            folders.remove(".leftoff")
            path = Path(parent, ".leftoff")
            if (path / "store.db").exists():
                found.append(path)
    return found


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is also the current one: the project that leftoff's verbs find."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    """Where a store may be made; it does not exist yet."""
    return tmp_path / ".leftoff"
