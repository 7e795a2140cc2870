"""The bed of the real agents, as far as it works without them: what it keeps is of one version, and can be read."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.agents.test_recorded_events import RECORDED
from tests.real_agents import page
from tests.real_agents.cache import versions
from tests.real_agents.model.answers import Answer, Call
from tests.real_agents.model.server import Model
from tests.real_agents.page import FAILS, TOGETHER, UNSUPPORTED, WORKS, Row
from tests.real_agents.record import Scrubber
from tests.real_agents.scenarios import ALL, crowd, kills, steps

ASKED: dict[str, dict[str, Any]] = {
    "/v1/messages": {"model": "m", "stream": True, "tools": [{}], "messages": []},
    "/v1/responses": {"model": "m", "stream": True, "tools": [{}], "input": []},
    "/v1beta/models/m:streamGenerateContent?alt=sse": {"tools": [{}], "contents": []},
}


@pytest.mark.parametrize("kind", ["events", "lines"])
def test_recordings_are_of_the_versions_that_are_pinned(kind: str) -> None:
    """Whoever pins another version records it, too."""
    wanted = {f"{agent}-{version}.{kind}.jsonl" for agent, version in versions().items()}
    assert wanted == {path.name for path in RECORDED.glob(f"*.{kind}.jsonl")}


def test_the_page_can_be_read_again() -> None:
    """So that scenarios that are played again can replace their rows, and no others."""
    assert {crowd.crowd, kills.kills, steps.cost} <= {one.play for one in ALL}
    states = {
        "claude": (WORKS, ""),
        "codex": (UNSUPPORTED, "`error: no such thing: x`"),
        "gemini": (FAILS, "why"),
    }
    rows = [
        Row(one, agent, *found, 0)
        for one in ALL
        for agent, found in ({TOGETHER: (WORKS, "60 of one")} if one.once else states).items()
    ]
    assert set(rows) == set(page.read(page.text(rows)))


def test_nothing_of_this_machine_is_recorded(tmp_path: Path) -> None:
    """Neither folders, also where they are part of a name, nor ids; the same id is the same again."""
    scrub = Scrubber({str(tmp_path): "$CWD"})
    name = str(tmp_path).replace("/", "-").replace("_", "-")
    one = "01a1e2ce-59be-7502-9407-53d45549d5c0"
    told = scrub(f'"{tmp_path}/x" "{name}" "{one}" "toolu_0123456789abcdef01234567" "{one}"')
    first = "00000000-0000-4000-8000-000000000001"
    assert f'"$CWD/x" "$MANGLED" "{first}" "toolu_0000000000000002" "{first}"' == told


def post(url: str, body: dict[str, Any]) -> str:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("path", ASKED)
def test_the_model_says_what_the_script_says(path: str) -> None:
    """In each API: calls of tools, words, refusals; and it counts what it served, but no refusal."""
    model = Model()
    try:
        call = Call("shell", {"cmd": "true"})
        model.script(Answer(calls=(call, call)), Answer("Half.", tokens=(7, 3)), Answer(status=429, wait=1))
        called, said = post(model.url + path, ASKED[path]), post(model.url + path, ASKED[path])
        with pytest.raises(urllib.error.HTTPError) as refused:
            post(model.url + path, ASKED[path])
        refused.value.close()
        assert (429, "1") == (refused.value.code, refused.value.headers["retry-after"])
        assert "shell" in called and "Half." in said
        assert (2, 3, 1) == (model.served.answers, model.served.turns, model.served.refusals)
        assert {"m": [1007, 203]} == model.served.tokens
        assert 1.21 == round(model.served.cost(lambda name: (1000.0, 1000.0)), 6)
    finally:
        model.close()
