"""A password in a URL is for libpq alone: no process that we start has it, and nothing says it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

import pytest

from leftoff.engine.project import open_store_at
from leftoff.errors import StoreUnavailable
from tests.cli.command import LEFTOFF, call, environment
from tests.postgres.server import MAKE_LOCKED, USER, Server

PASSWORD = "geh:eim/%40 ist es"


@pytest.fixture
def locked(server: Server, name: str) -> Iterator[str]:
    """The URL of somebody who needs a password, with it."""
    server.tell(
        f'DROP SCHEMA IF EXISTS "leftoff_{name}" CASCADE',
        MAKE_LOCKED,
        f"ALTER ROLE locked PASSWORD '{PASSWORD}'",
        "GRANT CREATE ON DATABASE postgres TO locked",
    )
    yield server.url(name).replace(f"{USER}@", f"locked:{quote(PASSWORD, safe='')}@")


FLOW = f"""name: f
steps:
  - id: a
    run: |
      env; tr '\\0' '\\n' < /proc/$PPID/environ
      p=$$; while test $p -gt 1; do tr '\\0' ' ' < /proc/$p/cmdline; p=$(cut -d' ' -f4 /proc/$p/stat); done
      echo "store: $LEFTOFF_STORE"
      {LEFTOFF} set found=yes
  - id: b
    env: {{SEEN: "{{{{ env.LEFTOFF_STORE }}}}"}}
    run: echo "seen $SEEN"
"""


def said(project: Path, **env: str) -> str:
    """Everything that a run of the flow and some verbs say, of themselves and of what lies in the store."""
    told = []
    for verb in ("run flow.yaml --run-id r", "logs r", "show r --json", "store info", "status"):
        done = subprocess.run(
            [str(LEFTOFF), *verb.split()],
            cwd=project,
            env=environment(**env),
            capture_output=True,
            text=True,
        )
        assert 0 == done.returncode, done
        told.append(done.stdout + done.stderr)
    return "\n".join(told)


def test_steps_do_not_get_it(project: Path, locked: str) -> None:
    """Neither by their environment nor by the list of processes; and yet what they report arrives."""
    (project / "flow.yaml").write_text(FLOW)
    text = said(project, LEFTOFF_STORE=locked)
    assert "seen postgresql://locked@" in text
    assert "geh" not in text and "ist%20es" not in text
    assert "store: postgresql://locked@" in text
    assert "yes" == call("get", "found", "--run", "r", cwd=project, LEFTOFF_STORE=locked).out.strip()


def test_the_file_is_private(project: Path, locked: str) -> None:
    """What other processes are given opens the same store; the file is their owner's alone."""
    store = open_store_at(locked)
    passed_on = store.location
    path = Path(dict(parse_qsl(urlsplit(passed_on).query))["secrets"])
    assert 0o600 == path.stat().st_mode & 0o777
    again = open_store_at(passed_on)
    assert (store.name, store.folder, passed_on) == (again.name, again.folder, again.location)
    assert not again.exists()  # it was let in
    path.unlink()
    with pytest.raises(StoreUnavailable) as caught:
        open_store_at(passed_on)
    assert str(path) in caught.value.message
    store.close()
    again.close()


def test_errors_do_not_say_it(server: Server, locked: str, project: Path) -> None:
    """Of a command whose server refuses it, or is not there."""
    for url in (locked.replace("geh", "nein"), locked.replace(str(server.folder), "/nowhere")):
        done = call("ls", cwd=project, LEFTOFF_STORE=url)
        assert 8 == done.code
        assert "eim" not in done.out + done.err
    assert os.environ.get("LEFTOFF_STORE") is None


@pytest.mark.parametrize(
    "wrong",
    [
        *("geheim%zz", "geheim%ff", "geh@eim", "geh/eim", "geh?eim", "geh#eim", "geheim%", "geheim@[::1:5"),
        *("g@h/eim", "g@h?eim", "g@h#eim", "g/h@eim"),
    ],
)
def test_a_url_that_cannot_be_read(project: Path, wrong: str) -> None:
    """A password with a character that means something else in a URL: what to write is told, none of it is shown."""
    done = call("ls", cwd=project, LEFTOFF_STORE=f"postgresql://me:{wrong}@h/db?project=x")
    assert (2, "") == (done.code, done.out)
    assert "cannot be read" in done.err and "%40" in done.err and "eim" not in done.err


@pytest.mark.parametrize("wrong", ["postgresql:", "postgresql:/me:geheim@h/db", "postgres:me:geheim@h/db"])
def test_a_url_without_its_slashes(project: Path, wrong: str) -> None:
    """No folder of that name is made: it might have a password in it."""
    done = call("start", "work", cwd=project, LEFTOFF_STORE=wrong)
    assert (2, "") == (done.code, done.out)
    assert "two slashes" in done.err and "eim" not in done.err
    assert [] == [path.name for path in project.iterdir() if path.name.startswith("postgres")]


@pytest.mark.parametrize(
    "option",
    ["projekt=x", "connect_timeout=soon", "port=x", "target_session_attrs=x", "sslmode=x", "service=x"],
)
def test_a_url_with_an_option_that_is_none(project: Path, server: Server, option: str) -> None:
    """libpq's own word for it; the call is wrong, not the server."""
    url = server.url().replace(f"{USER}@", f"{USER}:geheim@") + f"&{option}"
    done = call("ls", cwd=project, LEFTOFF_STORE=url)
    assert (2, "") == (done.code, done.out)
    assert option.partition("=")[0] in done.err and "eim" not in done.err


@pytest.mark.parametrize(
    "options",
    ["-c%20foo%3D1", "-c%20work_mem%3Dabc", "-c%20max_connections%3D3", "-c%20search_path", "-z", "words"],
)
def test_a_url_with_options_that_the_server_does_not_take(
    project: Path, server: Server, options: str
) -> None:
    """The server is there, and its word for it is told: that is no server out of reach."""
    url = server.url().replace(f"{USER}@", f"{USER}:geheim@") + f"&options={options}"
    done = call("ls", cwd=project, LEFTOFF_STORE=url)
    assert (2, "") == (done.code, done.out)
    assert "FATAL" in done.err and "eim" not in done.err


def test_a_service_file_that_is_not_there(project: Path) -> None:
    """Nor is it the server's fault."""
    done = call(
        "ls", cwd=project, LEFTOFF_STORE="postgresql://?service=x", PGSERVICEFILE=str(project / "none")
    )
    assert (2, "") == (done.code, done.out)
    assert "service file" in done.err
