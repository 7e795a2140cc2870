"""Secrets and requirements: what must be there before anything starts, and what must never be stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import succeed
from tests.workflow.driving import Flow, until
from tests.workflow.flows import files_with, lines, refused, run, runs

SECRET = "wombat-7-eucalyptus"  # of no known shape: only its value gives it away


def everything_said(folder: Path, run_id: str) -> str:
    """What the verbs show of a run."""
    words = (
        ["show", run_id],
        ["show", run_id, "--json"],
        ["logs", run_id],
        ["log", run_id],
        ["brief", run_id],
    )
    return "".join(called.out + called.err for called in (succeed(*w, cwd=folder) for w in words))


LEAKS = """
name: leaks
secrets: [API_KEY]
steps:
  - id: prints
    run: echo "key is $API_KEY"; echo "$API_KEY" >&2; printf '%s' "$API_KEY" | cut -c1-5; printf '%s' "$API_KEY"
  - {id: sets, run: 'printf "%s\\n" "mine=$API_KEY" "deep={\\"a\\": [\\"x $API_KEY y\\"]}" >> "$LEFTOFF_VARS"'}
  - {id: uses, run: 'test "$API_KEY" = {{ mine }} && echo {{ mine }} | wc -c > length'}
  - {id: returns, python: "tools:give"}
  - {id: fails, run: 'echo "lost=$API_KEY" | tee -a "$LEFTOFF_VARS"; exit 1', on_failure: continue}
  - {id: checked, run: "true", checks: ['echo "$API_KEY"; false'], on_failure: continue}
"""


@pytest.mark.parametrize(
    "redaction", ["", "[redaction]\nenabled = false\n"], ids=["redacted", "not redacted"]
)
def test_a_secret_is_never_stored(project: Path, redaction: str) -> None:
    """Wherever a step puts it, the value of a secret is nowhere under .leftoff, nor in anything that is shown.

    That is so also in a project that has switched redaction off: these were named.
    """
    (project / "leftoff.toml").write_text(redaction)
    (project / "tools.py").write_text("import os\ndef give():\n    return {'key': os.environ['API_KEY']}\n")
    ran = run(project, LEAKS, code=1, API_KEY=SECRET)
    statuses = ran.statuses()
    assert {"fails": "failed", "checked": "failed"}.items() <= statuses.items()
    assert {"completed"} == {statuses[path] for path in ("prints", "sets", "uses", "returns")}
    assert [str(len(SECRET) + 1)] == [line.strip() for line in lines(project, "length")]
    assert [] == files_with(project / ".leftoff", SECRET)
    assert SECRET not in ran.called.out + ran.called.err
    assert SECRET not in everything_said(project, ran.id)


def test_a_secret_that_is_not_there_needs_a_person(project: Path) -> None:
    """Without a terminal a missing secret is asked for with exit 7, by name; nothing is started."""
    text = "name: secrets\nsecrets: [API_KEY, OTHER]\nsteps: [{id: a, run: touch ran}]\n"
    said = refused(project, text, code=7, OTHER="there").err
    assert "API_KEY" in said and "OTHER" not in said
    assert 7 == refused(project, text, "--yes", code=7, OTHER="there", API_KEY="").code
    assert not (project / "ran").exists()
    assert not (project / ".leftoff").exists() or {} == runs(project)


def test_what_is_required_and_not_there(project: Path) -> None:
    """Tools, variables and paths that are missing are all named, exit 7; --yes goes on without them."""
    text = """
    name: requires
    requires: {tools: [sh, no-such-tool], env: [HOME, NO_SUCH_VARIABLE], paths: [flow.yaml, no/such/path]}
    steps: [{id: a, run: touch ran}]
    """
    said = refused(project, text, code=7).err
    assert all(word in said for word in ("no-such-tool", "NO_SUCH_VARIABLE", "no/such/path", "--yes"))
    assert "HOME" not in said and "flow.yaml" not in said
    assert not (project / "ran").exists()
    assert "completed" == run(project, "", "--yes").run["status"]


def test_what_is_required_and_there(project: Path) -> None:
    """Where everything that is required is there, nothing is asked."""
    (project / "tools").mkdir()
    ran = run(
        project,
        "name: requires\nrequires: {tools: [sh], env: [HOME], paths: [tools/]}\nsteps: [{id: a, run: 'true'}]\n",
    )
    assert "completed" == ran.run["status"]


def test_a_variable_with_a_telling_name_is_used_and_not_stored(project: Path) -> None:
    """A variable that looks like a password reaches the steps of this run, and is redacted on record."""
    ran = run(
        project,
        """
        name: password
        steps:
          - {id: a, run: "echo {{ db_password }} > given; echo api_token={{ db_password }}-2 >> $LEFTOFF_VARS"}
          - {id: b, run: "echo {{ api_token }} >> given"}
        """,
        "--var",
        f"db_password={SECRET}",
    )
    assert [SECRET, f"{SECRET}-2"] == lines(project, "given")
    assert [] == files_with(project / ".leftoff", SECRET)
    assert {"redacted": True} == ran.variables()["db_password"]


def test_nothing_of_a_secret_stays_of_a_run_that_was_given_up(flow: Flow) -> None:
    """A step that was killed leaves what it had set so far; whoever starts afresh removes it."""
    set_it = 'echo "v=$API_KEY" >> "$LEFTOFF_VARS"'
    text = f"name: given-up\nsecrets: [API_KEY]\nsteps: [{{id: a, run: '{set_it}; test -e again || sleep 60'}}]\n"
    flow.write(text)
    secret = {"API_KEY": SECRET}
    driver = flow.drive("run", "flow.yaml", env=secret)
    found = until(lambda: files_with(flow.folder / ".leftoff/attempts", SECRET), "it is set")
    assert ["vars"] == [Path(name).name for name in found]
    driver.kill()
    (flow.folder / "again").touch()
    succeed("run", "flow.yaml", "--fresh", cwd=flow.folder, **secret)
    assert [] == files_with(flow.folder / ".leftoff", SECRET)
