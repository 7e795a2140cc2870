"""Redaction through the API: secrets are not stored, the process that set them keeps them, work is not destroyed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.errors import Redacted
from tests.api.others import elsewhere, program

SECRET = "hunter2-never-on-disk"
GITHUB = "ghp_" + "a1B2c3D4e5" * 4
LONG = "a report. " * 80

# Where a secret may be: a name, the value to store under it, and how to get at the secret in it.
PLACES: dict[str, tuple[str, Any, Any]] = {
    "the variable itself": ("db_password", SECRET, lambda v: v["db_password"]),
    "a key": ("cfg", {"password": SECRET, "n": 1}, lambda v: v["cfg"]["password"]),
    "deep": ("cfg", {"a": [{"api_key": SECRET}]}, lambda v: v["cfg"]["a"][0]["api_key"]),
    "a list": ("access_tokens", ["x", SECRET], lambda v: v["access_tokens"][1]),
    "a large dict": (
        "cfg",
        {**{f"k{i:02d}": "x" * 100 for i in range(60)}, "password": SECRET},
        lambda v: v["cfg"]["password"],
    ),
    "a large list": (
        "rows",
        [{"i": i, "text": "x" * 100, "password": SECRET} for i in range(60)],
        lambda v: v["rows"][30]["password"],
    ),
    "by its shape": ("text", GITHUB, lambda v: v["text"]),
    "by its shape, inside": (
        "cfg",
        {"header": f"Authorization: Bearer {GITHUB}"},
        lambda v: v["cfg"]["header"],
    ),
}


def on_disk(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def assert_nothing_on_disk(folder: Path) -> None:
    """Neither secret is anywhere below the store's folder."""
    everything = on_disk(folder)
    assert SECRET.encode() not in everything and GITHUB.encode() not in everything


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_secrets_are_not_stored(run: leftoff.Run, store: leftoff.Store, store_path: Path, place: Any) -> None:
    """Whoever goes on is told which entry it is and how to give it again; everything else is there."""
    name, value, get = place
    run.variables[name] = value
    run.checkpoint()
    assert_nothing_on_disk(store_path)
    run.pause()
    again = leftoff.open(store_path).resume(run.id)
    for seen in (again.variables, store.get(run.id).variables, again.at("~0").variables):
        with pytest.raises(Redacted) as caught:
            get(seen)
        assert caught.value.name.startswith(name)
        assert "leftoff.toml" in caught.value.hint
        assert [name] == list(seen) and name in seen and "<redacted>" in repr(seen)
    again._owner.close()


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_the_process_that_set_it_keeps_it(run: leftoff.Run, store_path: Path, place: Any) -> None:
    """Before and after commits, its own and others', read before or not."""
    name, value, get = place
    run.variables[name] = value
    assert value == run.variables[name]
    run.commit()
    assert value == run.variables[name]
    elsewhere(store_path, run.id, {("knowledge", "k"): 1})
    run.variables["other"] = 1
    run.commit()
    assert value == run.variables[name]
    run.refresh()
    assert get(run.variables) == get({name: value})


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_changing_something_else_leaks_nothing(run: leftoff.Run, store_path: Path, place: Any) -> None:
    """A copy of what this process keeps, changed elsewhere and assigned again, is redacted like the first."""
    name, value, _ = place
    assert {} == dict(run.variables)
    run.variables[name] = value
    run.commit()
    for number in range(3):
        copy: Any = run.variables[name]
        if isinstance(copy, dict):
            copy = {**copy, "k00": number}
        elif isinstance(copy, list):
            copy = [number, *copy[1:]]
        if number == 1:
            elsewhere(store_path, run.id, {("knowledge", "k"): number})
        run.variables[name] = copy
        run.checkpoint()
        assert copy == run.variables[name]
    assert_nothing_on_disk(store_path)


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_what_was_redacted_stays_redacted_when_it_is_assigned_again(store_path: Path, place: Any) -> None:
    """The mark is not taken for a value, however deep in another value it is assigned."""
    name, value, get = place
    with leftoff.open(store_path) as store:
        store.start("w", run_id="r", variables={name: value}).pause()
    if not isinstance(value, (list, dict)):
        return
    with leftoff.open(store_path) as store:
        run = store.resume("r")
        read = run.variables[name]
        run.variables["other"], run.variables[name] = {"inner": [read]}, read
        run.checkpoint()
        for seen in (run.variables, store.get("r").variables):
            for again in (seen, {name: seen["other"]["inner"][0]}):
                with pytest.raises(Redacted):
                    get(again)


def test_given_again_it_is_there(store: leftoff.Store, store_path: Path) -> None:
    """The hint's way out works, and still stores nothing."""
    store.start("w", run_id="r", variables={"password": SECRET, "cfg": {"token": SECRET, "n": 1}}).pause()
    run = leftoff.open(store_path).resume("r")
    with pytest.raises(Redacted, match="password was redacted"):
        run.variables["password"]
    run.variables["password"] = SECRET
    run.variables["cfg"] = {"n": run.variables["cfg"]["n"], "token": SECRET}
    run.commit()
    assert (SECRET, SECRET) == (run.variables["password"], run.variables["cfg"]["token"])
    run._owner.close()
    assert_nothing_on_disk(store_path)


def test_reading_a_redacted_field_raises(store_path: Path) -> None:
    """The mark is never handed out as the value: of results, steps, variables and records alike."""
    row = {"token": SECRET, "pos": "DET"}
    with leftoff.open(store_path) as store:
        run = store.start("w", run_id="r", variables={"v": [row]})
        run.do("tokenize", lambda: [row])
        run.put("knowledge", "k", row)
        run.pause()
    with leftoff.open(store_path) as store:
        run, seen = store.resume("r"), store.get("r")
        result: Any = run.do("tokenize", list)
        for found in (
            result[0],
            run.result("tokenize")[0],
            run.steps["tokenize"]["result"][0],
            run.variables["v"][0],
            run.records["knowledge"]["k"],
            seen.steps["tokenize"]["result"][0],
            seen.variables["v"][0],
        ):
            assert ("DET", True, 2, {"token", "pos"}) == (
                found["pos"],
                "token" in found,
                len(found),
                {*found.keys()},
            )
            assert "'token': <redacted>" in repr(found)
            for read in (lambda row: row["token"], dict, json.dumps):
                with pytest.raises(Redacted, match="token was redacted"):
                    read(found)


def test_the_hint_of_a_redacted_result_is_true(project: Path) -> None:
    """It names the setting that keeps the field and how to run the step again; with both, the field is there."""
    with leftoff.open(".leftoff") as store:
        run = store.start("w", run_id="r")
        run.do("tokenize", lambda: [{"token": SECRET}])
        run.pause()
    with leftoff.open(".leftoff") as store:
        run = store.resume("r")
        result: Any = run.do("tokenize", list)
        with pytest.raises(Redacted, match=r"the result of step tokenize\[0\]\.token") as caught:
            result[0]["token"]
        assert '[redaction] allow = ["token"]' in caught.value.hint and "again=True" in caught.value.hint
        with pytest.raises(Redacted, match=r"tokenize\[0\]\.token"):
            run.do("count", lambda: result)
    (project / "leftoff.toml").write_text('[redaction]\nallow = ["token"]\n')
    with leftoff.open(".leftoff") as store:
        store.resume("r").do("tokenize", lambda: [{"token": SECRET}], again=True)
    assert SECRET == leftoff.open(".leftoff").get("r").steps["tokenize"]["result"][0]["token"]


def test_ordinary_words_under_an_ambiguous_name_come_back(store: leftoff.Store, store_path: Path) -> None:
    """The tokens of a text are work; what else is called so is a secret."""
    words = ["the", "DET", "tokenization", "naïve", "##ing", "Ġthe", ".", "42", "The quick brown fox."]
    rows = [{"token": word, "cookie": word, "secret": word} for word in words]
    run = store.start("w", run_id="r")
    run.do("tokenize", lambda: rows)
    run.do("login", lambda: {"token": SECRET, "cookie": f"sid={SECRET}", "secret": SECRET})
    run.pause()
    seen = store.get("r").steps
    assert rows == seen["tokenize"]["result"]
    for name in ("token", "cookie", "secret"):
        with pytest.raises(Redacted):
            seen["login"]["result"][name]
    assert_nothing_on_disk(store_path)


def test_each_run_says_what_it_does_not_store(project: Path) -> None:
    """A second run in the same process says it again."""
    source = """
import leftoff
for day in ("monday", "tuesday"):
    with leftoff.run("daily", title=day) as run:
        run.do("fetch", lambda: {"api_key": day})
"""
    assert 2 == program(source, project).stderr.count("step fetch is stored without")


def test_a_redacted_result_is_reported_when_it_is_recorded(project: Path) -> None:
    """One line on stderr for a step, however many items it has: step, field, and the setting that keeps it."""
    source = """
import leftoff
@leftoff.step
def fetch() -> dict:
    return {"cookie": "sid=abc123"}
@leftoff.workflow
def crawl() -> int:
    fetch()
    return 1
with leftoff.run("w") as run:
    run.do("plain", lambda: {"token": "the", "max_tokens": 1})
    run.do("tokenize", lambda: [{"token": "a8f3k2l9x0", "api_key": "x"}] * 100)
    with run.step("login") as step:
        step.result = {"user": {"password": "x"}}
    for number in run.each("each", range(100)):
        with run.step(f"page/{number}") as step:
            step.result = {"secret": "xK9-pQ"}
    run.variables["password"] = "x"
crawl.run()
"""
    done = program(source, project)
    assert "" == done.stdout and 0 == done.returncode
    lines = done.stderr.splitlines()
    assert 4 == len(lines), done.stderr
    assert (
        "step tokenize is stored without" in lines[0] and "[0].api_key, [0].token and 198 more." in lines[0]
    )
    assert lines[0].endswith('leftoff.toml: [redaction] allow = ["api_key", "token"]')
    assert "step login" in lines[1] and "user.password" in lines[1]
    assert "step page/0" in lines[2] and '["secret"]' in lines[2]
    assert "step 1-fetch" in lines[3] and '["cookie"]' in lines[3]


def test_appended_secrets(store: leftoff.Store, run: leftoff.Run, store_path: Path) -> None:
    """Entries of a list too: kept by this process, redacted for others; the rest of the list can be read."""
    expected: list[Any] = []
    for number in range(60):
        entry = {"i": number, "text": "x" * 100, "password": SECRET} if number % 3 == 0 else number
        run.append("log", entry)
        expected.append(entry)
        if number % 7 == 0:
            assert expected == run.variables["log"]
            run.commit()
    run.commit()
    assert expected == run.variables["log"]
    seen = store.get(run.id).variables["log"]
    assert (0, 1, 2) == (seen[0]["i"], seen[1], seen[2])
    with pytest.raises(Redacted, match=r"log\[3\].password"):
        seen[3]["password"]
    assert_nothing_on_disk(store_path)


def test_appending_to_a_list_with_redacted_entries(store_path: Path) -> None:
    """After a resume it grows like any other, and says what is redacted as before."""
    with leftoff.open(store_path) as store:
        store.start("w", run_id="r", variables={"log": [{"password": SECRET}]}).pause()
    with leftoff.open(store_path) as store:
        run = store.resume("r")
        for _ in range(2):
            run.append("log", {"password": SECRET, "n": 2})
        for _ in range(2):
            assert (SECRET, 3) == (run.variables["log"][1]["password"], len(run.variables["log"]))
            with pytest.raises(Redacted, match=r"log\[0\].password"):
                run.variables["log"][0]["password"]
            run.commit()
    assert_nothing_on_disk(store_path)


def test_results_of_steps(store: leftoff.Store, run: leftoff.Run, store_path: Path) -> None:
    """A step may return a secret: it is there for this process, and redacted for whoever goes on."""
    assert {"password": SECRET, "n": 1} == run.do("login", lambda: {"password": SECRET, "n": 1})
    found: Any = run.do("login", dict)
    assert SECRET == found["password"]
    elsewhere(store_path, run.id, {("knowledge", "k"): 1})
    run.commit()
    assert SECRET == run.result("login")["password"]
    run.pause()
    again = leftoff.open(store_path).resume(run.id)
    result: Any = again.do("login", dict)
    assert 1 == result["n"]
    with pytest.raises(Redacted, match=r"the result of step login\.password"):
        result["password"]
    assert 2 == again.do("login", lambda: {"n": 2}, again=True)["n"]
    again._owner.close()
    assert_nothing_on_disk(store_path)


def test_records(store: leftoff.Store, run: leftoff.Run, store_path: Path) -> None:
    """Any collection; this process keeps what it put."""
    run.put("member", "bob", {"password": SECRET, "role": "dev"})
    for _ in range(2):
        assert SECRET == run.records["member"]["bob"]["password"]
        run.commit()
    seen = store.get(run.id).records["member"]
    assert "dev" == seen["bob"]["role"]
    with pytest.raises(Redacted, match=r"member/bob\.password"):
        seen["bob"]["password"]
    assert_nothing_on_disk(store_path)


def test_errors_and_notes_are_masked(store: leftoff.Store, run: leftoff.Run, store_path: Path) -> None:
    """In free text only the secret goes: the rest is what somebody needs to read."""
    with pytest.raises(ConnectionError):
        run.do(
            "login", lambda: (_ for _ in ()).throw(ConnectionError(f"login with password={SECRET} failed"))
        )
    run.note(f"use {GITHUB} for now")
    run.checkpoint(note=f"token: {GITHUB}")
    run.finish("failed", summary=f"it was https://bob:{SECRET}@example.com")
    seen = store.get(run.id)
    assert "login with password=[redacted] failed" == seen.steps["login"]["error"]["message"]
    assert ["use [redacted] for now"] == [note["text"] for note in seen.records["note"].values()]
    assert ["token: [redacted]", "login with password=[redacted] failed"] == [v.note for v in seen.history()]
    assert "it was https://bob:[redacted]@example.com" == seen.records["run"]["summary"]
    assert_nothing_on_disk(store_path)


def test_other_notes_are_masked_too(run: leftoff.Run, store_path: Path) -> None:
    """Of a pause, and of a run that failed outside any step."""
    with pytest.raises(ValueError), run:
        raise ValueError(f"bad key {GITHUB}")
    again = leftoff.open(store_path).resume(run.id)
    again.pause(f"waiting for {GITHUB}")
    assert ["waiting for [redacted]", "bad key [redacted]"] == [v.note for v in again.history()]
    assert_nothing_on_disk(store_path)


def test_a_long_text_is_masked_a_short_one_goes_whole(run: leftoff.Run, store: leftoff.Store) -> None:
    """A report stays readable; a link or a header with a hole in it would only fail later."""
    run.variables.update(report=f"{LONG}{GITHUB} {LONG}", header=f"token {GITHUB}")
    assert GITHUB in run.variables["header"]
    run.commit()
    seen = store.get(run.id).variables
    assert f"{LONG}[redacted] {LONG}" == seen["report"]
    with pytest.raises(Redacted):
        seen["header"]


HARMLESS: dict[str, Any] = {
    "max_tokens": 4096,
    "next_token": "page-2",
    "token_count": "17",
    "password": 12345,
    "has_password": True,
    "secret": None,
    "api_key": "",
    "authorization": "${AUTH_HEADER}",
    "commit": "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "task": "task-001",
}


def test_work_is_not_destroyed(run: leftoff.Run, store: leftoff.Store) -> None:
    """Numbers, counts, references and names about something else are kept."""
    run.variables.update(HARMLESS)
    run.commit()
    assert HARMLESS == dict(store.get(run.id).variables)


def test_leftoff_toml_allows_and_adds(project: Path) -> None:
    """What is no secret here is kept, what is one besides is redacted."""
    (project / "leftoff.toml").write_text(
        "[redaction]\nallow = ['demo_password', 'db.password']\nnames = ['badge number']\n"
        "patterns = ['EMP-\\d{6}']\n"
    )
    with leftoff.open(".leftoff") as store:
        store.start(
            "w",
            run_id="r",
            variables={
                "demo_password": "kept",
                "db": {"password": "kept", "pin_password": "gone"},
                "badge_number": "gone",
                "text": "EMP-123456",
            },
        ).pause()
        seen = store.get("r").variables
        assert ("kept", "kept") == (seen["demo_password"], seen["db"]["password"])
        for read in (lambda: seen["db"]["pin_password"], lambda: seen["badge_number"], lambda: seen["text"]):
            with pytest.raises(Redacted):
                read()


def test_redaction_can_be_switched_off(project: Path) -> None:
    """Whoever says so has everything stored."""
    (project / "leftoff.toml").write_text("[redaction]\nenabled = false\n")
    with leftoff.open(".leftoff") as store:
        store.start("w", run_id="r", variables={"password": "kept"}).pause()
        assert "kept" == store.get("r").variables["password"]


def test_titles_and_summaries(store: leftoff.Store, store_path: Path) -> None:
    """A run's own records are records too."""
    run = store.start("w", title=f"deploy with {GITHUB}")
    run.finish()
    assert store.list()[0].title is None
    assert_nothing_on_disk(store_path)


def test_secrets_are_in_no_error_message(project: Path) -> None:
    """Not even in a traceback of ours: the name is told, never the value."""
    done = program(
        f"""
import leftoff
run = leftoff.start("w", run_id="r", variables={{"db_password": {SECRET!r}}})
run.pause()
leftoff.open(".leftoff").get("r").variables["db_password"]
""",
        project,
    )
    assert 1 == done.returncode
    assert "db_password was redacted when it was saved." in done.stderr
    assert "run.variables['db_password'] = " in done.stderr
    assert SECRET not in done.stderr.replace(f"variables={{'db_password': '{SECRET}'}}", "")


def test_compare_and_set_beside_a_secret(run: leftoff.Run) -> None:
    """Redacted entries are not compared: nobody can tell them apart."""
    run.variables["cfg"] = {"password": SECRET, "n": 1}
    run.commit()
    run.compare_and_set("cfg", run.variables["cfg"], {"password": SECRET, "n": 2})
    assert (SECRET, 2) == (run.variables["cfg"]["password"], run.variables["cfg"]["n"])
    with pytest.raises(leftoff.Conflict):
        run.compare_and_set("cfg", {"password": SECRET, "n": 1}, {"n": 3})
