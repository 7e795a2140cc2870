"""The laws of a protocol, on generated data: nothing is lost on the way in, nothing changes on the way back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leftoff.model.codec import decode, same_json, text
from leftoff.model.words import STEP_STATUS
from leftoff.protocols.crunch import PHASES as CRUNCH_PHASES
from leftoff.protocols.document_draft import Source, State
from leftoff.protocols.dotagent import PHASES as DOTAGENT_PHASES
from leftoff.protocols.loose_values import Rejected, Repairs, TooNew
from leftoff.protocols.protocol import Protocol, decode_document, left_over, respelt, write
from leftoff.protocols.registry import BUILT_IN, protocol
from tests.protocols.documents import KEYS, VALUES, documents
from tests.protocols.examples import EXAMPLES

Records = dict[tuple[str, str], Any]
NOW = 1_765_000_000_000
NAMES = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=8)


def stored(records: Records) -> Records:
    """Records as they come back from a store."""
    return {address: decode(text(value)) for address, value in records.items()}


@pytest.mark.parametrize("name", BUILT_IN)
@given(data=st.data())
def test_what_was_read_is_written_again(name: str, data: st.DataObject) -> None:
    """Encoding what was decoded gives the same document, whatever was in it."""
    document = data.draw(documents(name))
    if not document:
        return
    expected = respelt(document, protocol(name).keys, Repairs())
    try:
        found = decode_document(protocol(name), document, Source(EXAMPLES[name][0], NOW), Repairs())
    except (Rejected, TooNew):
        return
    found.records = stored(found.records)
    assert same_json(expected, write(protocol(name), found))


@given(st.dictionaries(KEYS, VALUES, max_size=5), st.dictionaries(KEYS, VALUES, max_size=5))
def test_any_document_can_be_laid_over_any_other(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """No protocol can forget a field: the difference is found by comparing."""
    extra = {("extra", key): decode(text(value)) for key, value in left_over(ours, theirs).items()}
    assert same_json(theirs, write(Fixed(ours), State("r", extra, NOW)))


def test_a_value_in_another_form_holds_until_it_changes() -> None:
    """A value that changed is written in the protocol's own form; unknown fields stay."""
    found = left_over({"at": "09:00:00Z", "n": 1}, {"at": "9 o'clock", "own": True, "n": 1})
    state = State("r", {("extra", key): value for key, value in found.items()}, NOW)
    assert {"at": "9 o'clock", "n": 1, "own": True} == write(Fixed({"at": "09:00:00Z", "n": 1}), state)
    assert {"at": "10:00:00Z", "n": 2, "own": True} == write(Fixed({"at": "10:00:00Z", "n": 2}), state)


class Fixed(Protocol):
    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    def encode(self, state: State) -> dict[str, Any]:
        return self.document


def steps_of(name: str) -> st.SearchStrategy[Records]:
    """Steps as native verbs would leave them in a run of this protocol."""
    if name == "dotagent":
        paths = [*DOTAGENT_PHASES, "IMPLEMENTATION/task-1", "IMPLEMENTATION/task-2"]
    elif name == "crunch":
        paths = [*CRUNCH_PHASES, "enrich/batch-1", "enrich/batch-2/task_1", "ready/batch-1/task_2"]
    else:
        paths = ["collect", "convert", "publish", "tidy"]
    status = st.sampled_from(STEP_STATUS)
    when = st.sampled_from(["2026-01-01T10:00:00Z", "2026-01-02T10:00:00.250Z"])
    step = st.fixed_dictionaries(
        {"status": status},
        optional={
            "started_at": when,
            "completed_at": when,
            "attempt": st.integers(1, 3),
            "outputs": st.just(["a.md"]),
        },
    )
    return st.tuples(*[step] * len(paths)).map(
        lambda made: {
            ("step", path): {**s, "order": n} for n, (path, s) in enumerate(zip(paths, made, strict=True))
        }
    )


def others_of(name: str) -> st.SearchStrategy[Records]:
    """Other records that `put`, `set`, `note` and `step block` make."""
    about = st.dictionaries(st.sampled_from(["text", "to", "from"]), NAMES, max_size=2)
    parts: list[st.SearchStrategy[Any]] = [
        st.tuples(st.just("variable"), NAMES, VALUES),
        st.tuples(st.just("note"), NAMES, NAMES.map(lambda text: {"text": text})),
        st.tuples(st.just("criterion"), NAMES, st.booleans()),
        st.tuples(st.just("score"), NAMES, st.integers(0, 100)),
        st.tuples(st.sampled_from(["message", "conflict", "knowledge", "member"]), NAMES, about),
        st.tuples(
            st.just("error"),
            NAMES,
            NAMES.map(lambda text: {"message": text, "type": "failed", "at": "2026-01-01T10:00:00Z"}),
        ),
    ]
    return st.lists(st.one_of(parts), max_size=6).map(lambda made: {(c, k): v for c, k, v in made})


@pytest.mark.parametrize("name", BUILT_IN)
@given(data=st.data())
def test_what_was_written_is_read_again(name: str, data: st.DataObject) -> None:
    """A native run, written and read by somebody else, says the same; read by us, nothing of it has changed."""
    own = {"workflow": "migration", "task": "T060", "branch": "main", "status": "running", "issue": "42"}
    records: Records = {("run", key): value for key, value in own.items()}
    records["run", "created_at"] = "2026-01-01T09:00:00Z"
    records["run", "title"] = "A title"
    records |= data.draw(steps_of(name)) | data.draw(others_of(name))
    run_id = {"crunch": "crunch-42", "sitebuilder": "migration-T060"}.get(name, "native-20260101-090000")
    state = State(run_id, records, NOW, ["CP-enrich-20260101-a3f2"] if name == "crunch" else [])
    document = write(protocol(name), state)
    repairs = Repairs()
    found = decode_document(protocol(name), document, Source(EXAMPLES[name][0], NOW), repairs)
    assert run_id == found.run_id and NOW == found.at
    assert same_json(document, write(protocol(name), found))
    again = decode_document(protocol(name), document, Source(EXAMPLES[name][0], NOW), Repairs(), state)
    assert same_json(document, write(protocol(name), again))
