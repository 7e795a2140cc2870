"""Redaction of any text and any JSON: what must hold whatever is in it."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

from hypothesis import assume, example, given
from hypothesis import strategies as st

from leftoff.engine.redactor import MASK, Redactor
from tests.unit.test_redact import CREDENTIAL_NAMES, HARMLESS_NAMES, REDACTED, SECRETS, SURVIVORS

NAMES = st.sampled_from(CREDENTIAL_NAMES + HARMLESS_NAMES) | st.text(max_size=12)
PLAIN_NAMES = st.sampled_from(["title", "status", "n", "max_tokens", "next_token", "keys"]) | st.text(
    "abcdefgh_-", max_size=8
)


def json_of(names: st.SearchStrategy[str], texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4)
    )


@given(PLAIN_NAMES, json_of(PLAIN_NAMES, st.text()))
def test_random_json_survives(key: str, value: Any) -> None:
    """Ordinary values come back as the same object."""
    assert Redactor().scrub(key, value)[0] is value


@given(st.text())
def test_random_text_survives_masking(text: str) -> None:
    """Ordinary text comes back as the same object."""
    assert Redactor().mask(text) is text


@given(NAMES, json_of(NAMES, st.text() | st.sampled_from([*SECRETS.values(), *SURVIVORS])), st.booleans())
@example("to\u212aen", {"api_\u212aey": "x"}, True)  # the Kelvin sign, whose lower case is a k
def test_nothing_is_found_that_was_not_suspected(key: str, value: Any, ascii_only: bool) -> None:
    """``suspicious`` is true wherever ``scrub`` finds a secret, however the JSON escapes what is not ASCII."""
    redactor = Redactor(names=["badge number"])
    scrubbed, _ = redactor.scrub(key, value)
    if scrubbed is not value:
        assert redactor.suspicious(key, json.dumps(value, ensure_ascii=ascii_only))


@given(NAMES, json_of(NAMES, st.text() | st.sampled_from([*SECRETS.values(), *SURVIVORS])))
def test_scrubbing_is_exact_and_final(key: str, value: Any) -> None:
    """The input is not changed, every path leads to a mark, and a second scrubbing finds nothing."""
    before = deepcopy(value)
    redactor = Redactor()
    scrubbed, paths = redactor.scrub(key, value)
    assert before == value
    for path in paths:
        entry: Any = scrubbed
        for part in path:
            entry = entry[part]
        assert REDACTED == entry
    again, more = redactor.scrub(key, scrubbed)
    assert again is scrubbed and [] == more


@given(
    st.sampled_from(sorted(SECRETS.values())),
    st.text(" \n,;()", min_size=1, max_size=3),
    st.text(max_size=30),
)
def test_masking_is_final(secret: str, gap: str, around: str) -> None:
    """What was masked is masked: doing it again gives the same text."""
    redactor = Redactor()
    masked = redactor.mask(f"{around}{gap}{secret}{gap}{around}")
    assert MASK in masked and secret not in masked
    assert redactor.mask(masked) == masked


@given(st.text())
def test_credentials_go_whatever_they_are(value: str) -> None:
    """Any string under a credential's name goes, unless it is empty, masked or a reference."""
    assume(value.strip().strip("*") and "}" not in value and MASK not in value)
    assert (REDACTED, [[]]) == Redactor().scrub("DB_PASSWORD", value)
