"""The MCP server, checked by the programs of the protocol's authors."""

from __future__ import annotations

import json
import re
import socket
import sys
import time

from tests.real_agents.agents import AGENTS, Agent, calls
from tests.real_agents.bed import Bed, expect, must
from tests.real_agents.model.answers import Answer
from tests.real_agents.scenarios import scenario

# The cases of the conformance suite that fail, by reason.
FAILING = {
    "They call a tool named `test_…` that only a server made for the suite has.": (
        "tools-call-image tools-call-audio tools-call-embedded-resource tools-call-mixed-content "
        "tools-call-with-logging tools-call-with-progress tools-call-sampling tools-call-elicitation "
        "elicitation-sep1034-defaults elicitation-sep1330-enums"
    ).split(),
    "They read a resource `test://…` that only a server made for the suite has.": (
        "resources-read-text resources-read-binary resources-templates-read"
    ).split(),
    "They ask for a prompt named `test_…` that only a server made for the suite has.": (
        "prompts-get-simple prompts-get-with-args prompts-get-embedded-resource prompts-get-with-image"
    ).split(),
    "The server declares no subscriptions: its resources are read when they are needed.": (
        "resources-subscribe resources-unsubscribe"
    ).split(),
    "The server declares no logging: it sends no log messages.": ["logging-set-level"],
    "The server declares no completion: it completes no arguments.": ["completion-complete"],
}
_SERVE = """\
import sys
from leftoff.agents.mcp_server import Server
Server(sys.argv[1], None).run(transport="streamable-http", port=int(sys.argv[2]))
"""


@scenario(
    "MCP with nobody to ask",
    "Codex in its default mode calls every kind of tool, because of their hints",
    once=True,
)
def unasked(bed: Bed, agent: Agent) -> None:
    project = bed.project("codex")
    codex = AGENTS["codex"]
    bed.model.script(
        *calls(
            codex.mcp("list_runs"),
            codex.mcp("start_run", workflow="release", run_id="r1", steps=["collect"]),
            codex.mcp("report_step", step="collect", status="completed"),
        ),
        Answer("Done."),
    )
    bed.model.insists = "unsupported call: mcp__leftoff"  # Codex does not wait for servers that start
    life = project.start(["codex", "exec", "--json", "Use leftoff"])
    expect("its exit code", 0, life.wait())
    expect("its step", "completed", project.show("r1")["step_records"][0]["status"])


@scenario("MCP inspector", "the official inspector lists the tools and calls one", once=True)
def inspector(bed: Bed, agent: Agent) -> str:
    project = bed.project()
    project.leftoff("start", "release", "--steps", "collect,build")
    words = ["inspector", "--cli", "leftoff", "mcp", "--method"]
    life = project.start([*words, "tools/list"])
    expect("its exit code", 0, life.wait())
    tools = json.loads(life.out)["tools"]
    size = len(json.dumps(tools))
    must(f"{len(tools)} tools in {size} characters", len(tools) <= 8 and size <= 8000)
    must("every tool has annotations", all("readOnlyHint" in tool["annotations"] for tool in tools))
    life = project.start([*words, "tools/call", "--tool-name", "list_runs"])
    expect("its exit code, calling", 0, life.wait())
    must(
        f"it gets the runs: {life.out[:200]}",
        '"release"' in json.dumps(json.loads(life.out)["structuredContent"]),
    )
    return f"{len(tools)} tools, {size:,} characters"


@scenario("MCP conformance", "the official suite passes, but for cases that are explained below", once=True)
def conformance(bed: Bed, agent: Agent) -> str:
    project = bed.project()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = project.start([sys.executable, "-c", _SERVE, str(project.folder), str(port)])
    try:
        _wait_for(port)
        life = project.start(["conformance", "server", "--url", f"http://127.0.0.1:{port}/mcp"])
        life.wait()
    finally:
        server.kill()
    cases = {name: mark for mark, name in re.findall(r"^([✓✗]) (\S+): ", life.out, re.MULTILINE)}
    must(f"it has cases: {life.out[-300:]}", cases)
    failing = sorted(name for names in FAILING.values() for name in names)
    expect("cases that fail", failing, sorted(name for name, mark in cases.items() if mark == "✗"))
    return f"{len(cases) - len(failing)} of {len(cases)} pass; the others are listed below"


def _wait_for(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError("the server does not listen")
