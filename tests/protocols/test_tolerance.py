"""What people and agents really write: read with a line that says so, or rejected with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from leftoff.protocols.document_draft import Source, State
from leftoff.protocols.document_text import MOST_BYTES, read_document
from leftoff.protocols.loose_values import Rejected, Repairs, TooNew, meaning, read_time
from leftoff.protocols.protocol import decode_document
from leftoff.protocols.registry import protocol, recognise
from tests.protocols.examples import BMAD, CLAUDE, SITEBUILDER

DAY = 1_768_435_200_000  # 2026-01-15


def parse(text: str | bytes, name: str = "x.json") -> tuple[dict[str, Any], list[str]]:
    repairs = Repairs()
    data = text if isinstance(text, bytes) else text.encode()
    return read_document(data, name, repairs), repairs.lines


def decoded(name: str, document: dict[str, Any], path: str = "x.json") -> tuple[State, list[str]]:
    repairs = Repairs()
    return decode_document(protocol(name), document, Source(path, DAY), repairs), repairs.lines


def test_keys_that_are_there_twice() -> None:
    """The last one counts, and what the other said is told, in JSON and in YAML."""
    assert ({"a": 2}, ["'a' is there twice; the last one counts, not 1."]) == parse('{"a": 1, "a": 2}')
    expected = ["line 2: 'P3' is there twice; the last one counts, not '✓ dev 11:32'."]
    assert ({"P3": "again"}, expected) == parse("P3: ✓ dev 11:32\nP3: again\n", "x.yaml")


def test_several_documents_in_one_file() -> None:
    """They are read as one, and that is told."""
    found, lines = parse("a: 1\nb: 1\n---\nb: 2\nc: 3\n", "x.yaml")
    assert {"a": 1, "b": 2, "c": 3} == found
    assert 2 == len(lines) and "2 documents" in lines[0]


def test_yaml_means_what_it_looks_like() -> None:
    """No sexagesimal numbers, no dates, no `yes`: a word is text unless it is plainly a number or a truth value."""
    text = "a: 12:18\nb: 2026-01-15\nc: yes\nd: 007\ne: 1.5\nf: true\ng: ~\nh: 'no'\ni: -3\n"
    expected = {
        "a": "12:18",
        "b": "2026-01-15",
        "c": "yes",
        "d": "007",
        "e": 1.5,
        "f": True,
        "g": None,
        "h": "no",
    }
    assert ({**expected, "i": -3}, []) == parse(text, "x.yml")


def test_backslashes_of_windows() -> None:
    """A text with a backslash that starts no escape is read as it stands, `\\b` included."""
    found, lines = parse(r'{"p": "C:\Users\ada\balance", "q": "a\nb"}')
    assert {"p": r"C:\Users\ada\balance", "q": "a\nb"} == found
    assert 1 == len(lines) and "backslash" in lines[0]


@pytest.mark.parametrize(
    ("written", "expected", "told"),
    [
        ("2026-01-15T11:40:00Z", "2026-01-15T11:40:00Z", False),
        ("2026-01-15T11:40:00+00:00", "2026-01-15T11:40:00Z", False),
        ("2026-01-15T11:40:00.250-05:00", "2026-01-15T16:40:00.250Z", False),
        ("2026-01-15T11:40:00", "2026-01-15T11:40:00Z", True),
        ("2026-01-15 11:40 UTC", "2026-01-15T11:40:00Z", True),
        ("2026-01-15", "2026-01-15T00:00:00Z", True),
        ("11:40", "2026-01-15T11:40:00Z", True),
        (1_768_477_200, "2026-01-15T11:40:00Z", True),
        (1_768_477_200_000, "2026-01-15T11:40:00Z", True),
        ("yesterday", None, True),
        ("2026-02-30T00:00:00Z", None, True),
        (True, None, True),
    ],
)
def test_times(written: Any, expected: str | None, told: bool) -> None:
    """Every way to write a time that is in use is read; what had to be guessed is told."""
    from leftoff.clock import iso

    repairs = Repairs()
    found = read_time(written, repairs, "created_at", DAY)
    assert expected == (iso(found) if found is not None else None)
    assert told == bool(repairs.lines)


def test_a_number_where_a_list_is_expected() -> None:
    """It is read as the first so many, and that is told."""
    found, lines = decoded("bmad", {**BMAD["state"], "steps_completed": 2})
    assert ["completed", "completed", "pending"] == [found.records["step", n]["status"] for n in "123"]
    assert ["steps_completed: the number 2 is read as the first 2."] == lines


def test_camel_case() -> None:
    """Keys in another spelling are read as the protocol's."""
    document = {"runId": "dev-1", "stepsCompleted": [1], "totalSteps": 2, "status": "running"}
    found, lines = decoded("bmad", document)
    assert "dev-1" == found.run_id and 2 == found.records["run", "total"]
    assert 3 == len([line for line in lines if line.startswith("the key ")])


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("✅ running", "running"),
        ("🚧 blocked", "blocked"),
        ("⏳ in progress", "running"),
        ("✅ not started", "pending"),
        ("✅ not done", None),
        ("not_done", None),
        ("✅Done", "completed"),
        ("**Completed** ❌", "completed"),
        ("🚧 currently in-progress (60%)", "running"),
        ("_on hold_", "blocked"),
        ("✅", "completed"),
        ("🚀 ✅ shipped", "completed"),
        ("🚀", None),
    ],
)
def test_a_word_outweighs_the_sign_beside_it(written: str, meant: str | None) -> None:
    """A word that is known counts; a sign only where there is none, and what is denied is not guessed."""
    assert meant == meaning(written)


def test_status_words_and_emoji() -> None:
    """A status is read by its meaning; one that nobody can tell has a line too."""
    items = [{"id": "a", "status": "✅ Done"}, {"id": "b", "status": "DONE"}, {"id": "c", "status": "quux"}]
    found, lines = decoded("sitebuilder", {**SITEBUILDER["full start"], "subtasks": {"items": items}})
    assert ["completed", "completed", "pending"] == [found.records["step", n]["status"] for n in "abc"]
    assert 3 == len(lines) and "unknown" in lines[2]


def test_percent_as_text() -> None:
    """`~98%` is a number."""
    document = {**SITEBUILDER["full start"], "subtasks": {"total": "~98%", "completed": "3"}}
    found, lines = decoded("sitebuilder", document)
    assert (98, {"completed": 3}) == (found.records["run", "total"], found.records["run", "beyond"])
    assert 2 == len(lines)


def test_two_schemas_in_one_folder() -> None:
    """A checkpoint that calls its id `id` and its time `timestamp` is read, each with a line."""
    document = {
        "id": "cp-feat-1",
        "timestamp": "2026-01-09T23:50:00Z",
        "description": "Voice loop",
        "state": {"x": 1},
    }
    found, lines = decoded("claude-checkpoints", document)
    assert ("cp-feat-1", "Voice loop") == (found.run_id, found.records["run", "title"])
    assert {"x": 1} == found.records["extra", "state"]
    assert 6 == len(lines)


def test_a_schema_beside_the_data() -> None:
    """A JSON Schema is no checkpoint."""
    with pytest.raises(Rejected, match="JSON Schema"):
        recognise({"$schema": "x", "properties": {"run_id": {}}, "run_id": 1}, "x.json")


def test_ids_that_no_run_can_have() -> None:
    """Other characters become dashes; what was written is another name for the run."""
    found, lines = decoded("bmad", {**BMAD["state"], "run_id": "dev story/é"})
    assert "dev-story--" == found.run_id
    assert "dev story/é" == found.aliases[0]
    assert 1 == len(lines)


def test_a_newer_schema_is_refused() -> None:
    """The version is named; older ones are read."""
    with pytest.raises(TooNew, match=r"3\.0"):
        decoded("claude-checkpoints", {**CLAUDE["schema 2.1"], "schema_version": "3.0"})
    for version in ("1.0", "1.2", "1.3", "2.0", "2.1"):
        decoded("claude-checkpoints", {**CLAUDE["schema 2.1"], "schema_version": version})


@pytest.mark.parametrize(
    ("text", "name", "why"),
    [
        ('{"run_id": "x", "steps_comp', "x.json", "not JSON"),
        ('{"run_id": "x"', "x.json", "not JSON"),
        ("", "x.json", "empty"),
        ("[1]", "x.json", "no document with keys"),
        ("3", "x.yaml", "no document with keys"),
        ("{}", "x.json", "no document with keys"),
        (b"\xff\x00\x01", "x.json", "text"),
        (b'{"a": "\xff"}', "x.json", "UTF-8"),
        ('{"a": "\0"}', "x.json", "NUL"),
        ('{"a": "\\ud800x"}', "x.json", "surrogate"),
        ('{"a":' * 150 + "1" + "}" * 150, "x.json", "levels deep"),
        ('{"a":' * 200_000, "x.json", "too deep"),
        ("[" * 100_000, "x.yaml", "nested too deep"),
        ("a: *nobody", "x.yaml", "no anchor"),
        ("? [a]\n: 1\n", "x.yaml", "a key is a list"),
        ("a: [1\nb: }", "x.yaml", "not YAML"),
        ("1" * 5000, "x.json", "digits"),
        (b"\x1f\x8bnonsense", "x.yaml.gz", "no gzip file"),
    ],
)
def test_rejected_with_a_reason(text: str | bytes, name: str, why: str) -> None:
    """What is cut short, too deep or no document at all is rejected, and never completed."""
    with pytest.raises(Rejected, match=why):
        parse(text, name)


def test_alias_bombs() -> None:
    """Aliases that would grow without end are refused before they do; the others are read."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(Rejected, match="more than 2,000,000 values"):
        parse("\n".join(lines), "x.yaml")
    assert ({"a": [1], "b": [1]}, []) == parse("a: &x [1]\nb: *x\n", "x.yaml")


def test_tags_run_nothing() -> None:
    """A tag that would make an object is left out, and told."""
    found, lines = parse("a: !!python/object/apply:os.system ['false']\nb: !!int '3'\n", "x.yaml")
    assert {"a": ["false"], "b": "3"} == found
    assert 2 == len(lines)


def test_too_large(tmp_path: Any) -> None:
    """A file over 50 MB is refused without being read."""
    from leftoff.protocols.document_text import read_bytes

    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(Rejected, match="50 MB"):
        read_bytes(str(path))


def test_a_gzip_bomb_is_refused() -> None:
    """So is what unpacks to more than that."""
    import gzip

    with pytest.raises(Rejected, match="unpacks to more"):
        read_document(gzip.compress(b"\0" * (MOST_BYTES + 1)), "large.yaml.gz", Repairs())


def test_numbers_that_cannot_be_stored() -> None:
    """NaN and infinities are read as text, each with a line."""
    found, lines = parse('{"a": NaN, "b": 1e999}')
    assert {"a": "NaN", "b": "1e999"} == found
    assert 2 == len(lines)
    assert json.dumps(found)
