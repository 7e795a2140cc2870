"""A workflow's secret is known in whatever form a program shows it, in records and in logs alike."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable

import pytest

from leftoff.engine.redactor import Redactor, forms_of
from leftoff.workflow.redacting_stream import Censor

SECRETS = {
    "quotes": 'it\'s "quoted" \\ XyZ',
    "beyond ASCII": "päss-wörd-XyZ",
    "several lines": 'first part XyZ\n}\n  "second": "part XyZ",\n',
}
SHOWN: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "JSON": json.dumps,
    "JSON, not escaped": lambda text: json.dumps(text, ensure_ascii=False),
    "JSON around it": lambda text: json.dumps({"x": [text]}),
    "Python": repr,
    "a shell": shlex.quote,
    "set -x": lambda text: "+ echo '" + text.replace("'", "'\\''") + "'",
    "its last line": lambda text: text.strip().split("\n")[-1],
}


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("shown", SHOWN)
def test_no_form_of_it_is_kept(secret: str, shown: str) -> None:
    """Neither as a value or a text of a record, nor in a log."""
    value = SECRETS[secret]
    text = f"a {SHOWN[shown](value)} b"
    redactor, censor = Redactor(exact=(value,)), Censor(None, [value.encode()])
    kept = json.dumps(redactor.scrub("x", {"deep": [text]}), ensure_ascii=False)
    logged = (censor.feed(f"{text}\n".encode()) + censor.end()).decode()
    for found in (kept, redactor.mask(text), logged):
        assert "XyZ" not in found
    assert redactor.suspicious("x", json.dumps(text, ensure_ascii=False))


def test_a_short_line_is_none() -> None:
    """A brace is no secret, though one may hold it; and what is the same in every form is one."""
    assert {'{\n"key": "v"\n}', '"key": "v"'} == {
        form for form in forms_of('{\n"key": "v"\n}') if "\\" not in form
    }
    assert {"plain-Secret_1"} == forms_of("plain-Secret_1")
