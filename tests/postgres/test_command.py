"""The command is one contract: the same words in two projects, with a folder and with a server, say the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cli.command import Called, call
from tests.postgres.server import USER, Server

FLOW = """name: build
steps:
  - id: one
    run: echo hello
  - id: two
    needs: one
    run: echo world > out.txt
    outputs: [out.txt]
  - id: bad
    needs: two
    run: test -e fixed
"""
ASK = """name: ask
steps:
  - id: a
    run: echo hi
  - id: ok
    needs: a
    approval: Go?
  - id: b
    needs: ok
    run: echo done
"""
#: word by word what somebody types; `touch` and `rm` are of the shell
SESSION = """
start site --run-id s-1 --steps plan,build/a,build/b,ship --title Site --json
status --json
next --json
step start plan
step done plan --json
set title=Hello count:=3 items:=[1,2,3]
get count
get nothing
note "mind the gap"
step start build/a
step fail build/a --error broken
show s-1 --json
save --note first --json
put knowledge fact {"text":"known"}
track out.txt
step done build/a
step start build/b
step done build/b
log s-1 --json
diff s-1~2 s-1 --json
rollback s-1~1 --json
show s-1 --json
fork s-1 --branch other --run-id s-2 --json
ls --all --json
ls --status running --json
brief s-1
verify s-1 --json
pause s-1
resume s-1 --json
finish s-1 --json
finish s-1 --json
show s-1@3 --json
export s-1 -o s-1.leftoff --json
rm s-1 --yes --json
show s-1
import s-1.leftoff --json
show s-1 --json
run flow.yaml --run-id f-1
touch fixed
verify f-1 --json
resume f-1 --yes
logs f-1
show f-1 --json
cat f-1:out.txt
rm out.txt
restore f-1:out.txt --yes
prune --json
ls --all --json
fsck --json
stop f-1
set x=1 --run nobody
step done nothing --run s-2
resume s-2 --json
step skip plan --run s-2 --json
step block build/a --run s-2 --error "no key"
status --json
unblock s-2 --json
beat --run s-2
artifact flow.yaml --run s-2 --json
handover s-2
show s-2 --artifacts
log s-2 --all --json
diff s-2@1 s-2 --json
rollback s-2@1 --dry-run --json
note "once more" --run s-2
get --run s-2 --json
set count:={count} --run s-2
set a=1 a=2 --run s-2 --json
ls --workflow site --limit 1 --json
ls --status nonsense
show s-9
show s-2@99
show s-2~99
restore s-2:nothing --yes
cat s-2:flow.yaml
rm s-2 --yes --json
undelete s-2 --json
show s-2 --json
start site --run-id s-2
export nobody -o x.leftoff
import flow.yaml
run ask.yaml --run-id q-1
approve q-1 --json
resume q-1 --yes
run ask.yaml --run-id q-2 --fresh
reject q-2 --note no --json
resume q-2
show q-2 --json
resume q-2 --list --json
resume q-2 --dry-run --json
start work --run-id w-1 --steps a,b --session sess-1 --agent claude --json
next --run w-1 --start --json
step block a --run w-1 --error "no key" --json
unblock w-1 a --json
unblock w-1 a --json
put knowledge k {"t":1} --new --run w-1 --json
put knowledge k {"t":2} --new --run w-1 --json
get knowledge/k w-1 --json
handover w-1 --to codex --json
finish w-1 --summary fine --json
supervise --once --json
protocols --json
trust --list
completion bash
compat
prune --dry-run --json
prune --empty-trash --json
run flow.yaml --check --json
run flow.yaml --graph
frobnicate
fsck --json
"""
#: of runs that are over
ARCHIVING = """
start site --run-id s-1 --steps a --title Old --issue 7
artifact flow.yaml --run s-1
archive s-1
finish s-1
archive s-1 --json
archive s-1 --json
ls --json
ls --all --json
show s-1 --json
show #7 --json
cat s-1:flow.yaml
start site --run-id s-1
export s-1 -o s.leftoff --json
undelete s-1 --json
show s-1 --json
archive s-1 --json
rm s-1 --yes --json
undelete s-1 --json
ls --all --json
prune --json
fsck --json
"""


@pytest.fixture
def sides(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, dict[str, Any]]]:
    """A project with a folder, and one with a server: where it is, and its environment."""
    found: list[tuple[Path, dict[str, Any]]] = []
    for name, more in (("folder", {}), ("server", {"LEFTOFF_STORE": url})):
        project = tmp_path / name
        project.mkdir()
        (project / "flow.yaml").write_text(FLOW)
        (project / "ask.yaml").write_text(ASK)
        (project / "leftoff.toml").write_text("")
        found.append((project, {**more, "LEFTOFF_PROJECT": str(project)}))
    return found


def test_the_same_words_say_the_same(sides: list[tuple[Path, dict[str, Any]]]) -> None:
    """Exit codes, results, JSON and messages; times, places and how many bytes there are aside."""
    _play(SESSION, sides)


def test_the_archive_says_the_same(sides: list[tuple[Path, dict[str, Any]]]) -> None:
    _play(ARCHIVING, sides)


def _play(session: str, sides: list[tuple[Path, dict[str, Any]]]) -> None:
    for line in session.strip().splitlines():
        one, other = (_played(line, project, env) for project, env in sides)
        assert one == other, f"{line}\n--- folder\n{one}\n--- server\n{other}"


def _played(line: str, project: Path, env: dict[str, Any]) -> tuple[int, Any, str]:
    words = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', line)]
    if line.startswith("put "):
        words = line.split()
    if words[0] == "touch":
        (project / words[1]).touch()
        return 0, "", ""
    if words[:2] == ["rm", "out.txt"]:
        (project / "out.txt").unlink()
        return 0, "", ""
    done = call(*words, cwd=project, **env)
    return done.code, _document(done, project), _plain(done.err, project)


#: what may differ: times, places, and how many bytes and pages there are
_ASIDE = frozenset("freed bytes bytes_freed waiting store checked digest path seen active_ms used".split())


def _document(done: Called, project: Path) -> Any:
    try:
        return _without(json.loads(done.out), project)
    except ValueError:
        return _plain(done.out, project)


def _without(found: Any, project: Path) -> Any:
    if isinstance(found, dict):
        kept = {key: None if key in _ASIDE else _without(value, project) for key, value in found.items()}
        return {_plain(key, project): value for key, value in kept.items()}
    if isinstance(found, list):
        return [_without(each, project) for each in found]
    return _plain(found, project) if isinstance(found, str) else found


def _plain(text: str, project: Path) -> str:
    text = text.replace(str(project), "PROJECT")
    text = re.sub(r"postgresql://\S*?project=[\w-]+|PROJECT/\.leftoff", "STORE", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r"\b[0-9a-f]{12,64}\b", "HASH", text)
    text = re.sub(r"\b\d+(\.\d+)? ?(ms|s)\b", "TOOK", text)
    text = text.replace("TOOK ago", "just now")
    text = re.sub(r"\b\d{15}-\d{4}\b", "NOTE", text)
    return re.sub(r"[\d,]+ bytes", "BYTES", text)


Sides = list[tuple[Path, dict[str, Any]]]


@contextmanager
def role(server: Server, env: dict[str, Any], heading: str) -> Iterator[dict[str, Any]]:
    """Somebody with the grants that the page gives behind these words, and no others."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "postgres.md").read_text()
    grants = page.partition(heading)[2].partition("```sql\n")[2].partition("```")[0]
    project = env["LEFTOFF_STORE"].rpartition("project=")[2]
    name = f"role_{project.replace('-', '_')}"
    for word in ("worker", "reader"):
        grants = grants.replace(f"TO {word};", f"TO {name};")
    with psycopg.connect(server.url(), autocommit=True) as conn:
        conn.execute(f"CREATE ROLE {name} LOGIN".encode())
        for sql in filter(str.strip, grants.replace("leftoff_site", f'"leftoff_{project}"').split(";")):
            conn.execute(sql.encode())
    try:
        yield {**env, "LEFTOFF_STORE": env["LEFTOFF_STORE"].replace(f"{USER}@", f"{name}@")}
    finally:
        with psycopg.connect(server.url(), autocommit=True) as conn:
            conn.execute(f"DROP OWNED BY {name}".encode())
            conn.execute(f"DROP ROLE {name}".encode())


def test_a_role_that_only_looks(sides: Sides, server: Server) -> None:
    """It can list, show and check; what would write is refused, and nothing is changed."""
    project, env = sides[1]
    for words in (("start", "site", "--run-id", "r-1", "--steps", "a,b"), ("step", "done", "a")):
        assert 0 == call(*words, cwd=project, **env).code
    with role(server, env, "For a role that only reads") as reads:
        for line in (
            "ls",
            "show r-1",
            "status",
            "log r-1",
            "diff r-1@1 r-1",
            "verify r-1",
            "fsck",
            "brief r-1",
        ):
            done = call(*line.split(), cwd=project, **reads)
            assert 0 == done.code, done
        copied = call("store", "copy", reads["LEFTOFF_STORE"], str(project / "copy"), cwd=project, **reads)
        assert 0 == copied.code, copied  # what is read is written elsewhere
        writes = "set x=1,step done b,start other,rm r-1 --yes,finish,note hi,save,pause,fork r-1,rollback r-1@1 --yes"
        for line in writes.split(","):
            done = call(*line.split(), cwd=project, **reads)
            assert 8 == done.code and "may not do that" in done.err, done
        assert 1 == call("store", "info", "--json", cwd=project, **env).json["runs"]
        assert 2 == call("show", "r-1", "--json", cwd=project, **env).json["head"]["seq"]


@pytest.mark.parametrize("is_made", [True, False])
def test_a_role_that_is_kept_out(sides: Sides, server: Server, is_made: bool) -> None:
    """It is told so, by who reads and who writes: neither that there is nothing, nor that the layout is another."""
    project, env = sides[1]
    schema = f"leftoff_{env['LEFTOFF_STORE'].rpartition('project=')[2]}"
    if is_made:
        assert 0 == call("start", "site", "--run-id", "r-1", cwd=project, **env).code
    else:
        server.tell(f'CREATE SCHEMA "{schema}"')
    with role(server, env, "no page gives grants behind these words") as strange:
        for line in (
            "ls",
            "show r-1",
            "store info",
            "status",
            "fsck",
            "start site",
            "note hi",
            "store migrate",
        ):
            done = call(*line.split(), cwd=project, **strange)
            assert 8 == done.code and f"permission denied for schema {schema}" in done.err, done


def test_a_role_that_works(sides: Sides, server: Server) -> None:
    """With the grants of the page it can do everything but change the schema."""
    project, env = sides[1]
    assert 0 == call("start", "first", cwd=project, **env).code
    (project / "flow.yaml").write_text(
        "name: f\nsteps:\n  - id: a\n    run: echo hi\n  - id: ok\n    approval: Go?\n"
    )
    with role(server, env, "For a role that reads and writes") as works:
        assert 7 == call("run", "flow.yaml", "--run-id", "r", cwd=project, **works).code
        lines = (
            "approve r ok,resume r,logs r,save --run r,artifact flow.yaml,fork r --run-id s,rm s --yes,prune"
        )
        for line in lines.split(","):
            done = call(*line.split(), cwd=project, **works)
            assert 0 == done.code, done


def test_a_store_that_the_settings_name(project: Path, url: str) -> None:
    """It leads outside of the project: it is used once somebody has trusted it, and its password is not shown."""
    secret = url.replace("@", ":geheim@", 1)
    (project / "leftoff.toml").write_text(f'store = "{secret}"\n')
    asked = call("trust", "--json", cwd=project)
    assert (7, True) == (asked.code, "project=" in asked.out)
    before = call("start", "site", "--run-id", "here", cwd=project)
    assert 0 == before.code and (project / ".leftoff").is_dir()
    assert 0 == call("trust", "--yes", cwd=project).code
    assert 0 == call("start", "site", "--run-id", "there", cwd=project).code
    listed = call("trust", "--list", cwd=project)
    found = call("show", "there", "--json", cwd=project, LEFTOFF_STORE=url)
    assert (0, "there") == (found.code, found.json["run_id"])
    assert "geheim" not in "".join(each.out + each.err for each in (asked, before, listed, found))
    assert 3 == call("show", "here", cwd=project).code


def test_a_statement_that_takes_too_long(sides: Sides, server: Server) -> None:
    """The server's `statement_timeout` ends it: a verb says so, as an error with a code, and nothing is changed."""
    project, env = sides[1]
    assert 0 == call("start", "site", "--run-id", "r-1", cwd=project, **env).code
    schema = f"leftoff_{env['LEFTOFF_STORE'].rpartition('project=')[2]}"
    short = {**env, "LEFTOFF_STORE": env["LEFTOFF_STORE"] + "&options=-c%20statement_timeout%3D50ms"}
    with psycopg.connect(server.url()) as conn:
        conn.execute(f'LOCK TABLE "{schema}".record IN ACCESS EXCLUSIVE MODE'.encode())
        for words in (("show", "r-1", "--json"), ("note", "hi", "--json"), ("fsck", "--json")):
            done = call(*words, cwd=project, **short)
            assert (8, "store_unavailable") == (done.code, done.json["error"]["code"]), done
            assert "statement_timeout" in done.json["error"]["hint"]
    assert 1 == call("show", "r-1", "--json", cwd=project, **short).json["head"]["seq"]
