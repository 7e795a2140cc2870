"""The part of the table that faces play which take no operations one by one: workflow files, functions, hook events."""

from __future__ import annotations

import sys

from tests.parity.by_hooks import SESSION, Event, todos
from tests.parity.operations import (
    AB,
    FAILED,
    OF_A_WORKFLOW,
    REQUEST,
    SECRET,
    TRACK,
    Case,
    anyhow,
    note,
    op,
    put,
    sets,
    start,
    step,
    write,
)
from tests.parity.playing import Op


def flow(steps: dict[str, str], more: str = "") -> str:
    """A workflow file: each step as the lines below its id."""
    lines = ["name: flow", *more.splitlines(), "steps:"]
    for path, about in steps.items():
        lines += [f"  - id: {path}", *(f"    {line}" for line in about.splitlines())]
    return "\n".join(lines) + "\n"


OF_A_SESSION = {"LEFTOFF_SESSION": SESSION, **OF_A_WORKFLOW}
WRITES_F = {"tool_name": "Write", "tool_input": {"file_path": "f"}, "tool_response": {}}
NOW = "2026-01-01T00:00:00.000Z"
TRUE = "run: 'true'"
LEFTOFF = f"{sys.executable} -m leftoff"


def ran(path: str) -> tuple[Op, Op]:
    """A step that was started and is done."""
    return step("start", path), step("done", path)


RAN_A, RAN_B = ran("a"), ran("b")
EXIT_3 = {"error": "It ended with exit code 3.", "type": "exit"}
FAILS_B = (step("start", "b"), step("fail", "b", **EXIT_3), op("finish", status="failed"))


def hooked(name: str, ops: tuple[Op, ...], *events: Event) -> Case:
    """What a session's hooks tell, and the same told by the session itself: both begin with a list of one step."""
    begun = (
        start("session", agent="claude", title="a"),
        op("save", trigger="agent_start", note="a session of claude begins"),
        put("step", "a", {"title": "a", "by": "list"}),
    )
    return Case(
        f"session, {name}", (*begun, *ops), {"hooks": [todos(a="pending"), *events]}, env=OF_A_SESSION
    )


ASKED = (start(steps=["sign-off"]), REQUEST, anyhow(op("pause")))
PUBLISH = flow({"sign-off": "approval: Publish?"})

SCRIPTED = (
    # -- a workflow that a runner executes, and one that is a function
    Case("workflow", (AB, *RAN_A, *RAN_B, op("finish")), {"runner": [flow({"a": TRUE, "b": TRUE})]}),
    Case(
        "workflow, title and variables",
        (start(title="Nature trail", steps=["a"], variables={"n": 1}), *RAN_A, op("finish")),
        {"runner": [flow({"a": TRUE}, "vars: {n: 1}"), "--title", "Nature trail"]},
    ),
    Case("workflow, fails", (AB, *RAN_A, *FAILS_B), {"runner": [flow({"a": TRUE, "b": "run: exit 3"})]}),
    Case(
        "workflow, fails and goes on",
        (AB, *RAN_A, *FAILS_B, write("ok", ""), op("resume"), *RAN_B, op("finish")),
        {
            "runner": [
                flow({"a": TRUE, "b": "run: test -e ok || { touch ok; exit 3; }"}),
                ("resume", "the-run"),
            ]
        },
    ),
    Case(
        "workflow, from a step on",
        (AB, *RAN_A, *RAN_B, op("finish"), op("resume", from_step="b", yes=True), *RAN_B, op("finish")),
        {"runner": [flow({"a": TRUE, "b": TRUE}), ("resume", "the-run", "--from-step", "b", "--yes")]},
    ),
    Case(
        "workflow, outputs",
        (
            start(steps=["a"]),
            step("start"),
            write("out.txt", "1\n"),
            step("done", outputs=["out.txt"]),
            op("finish"),
        ),
        {"runner": [flow({"a": "run: echo 1 > out.txt\noutputs: [out.txt]"})]},
    ),
    Case(
        "workflow, a tracked file changes",
        (
            start(steps=["a"]),
            step("start"),
            write("f", "1"),
            TRACK,
            write("f", "22"),
            step("done"),
            op("finish"),
        ),
        {"runner": [flow({"a": f"run: printf 1 > f; {LEFTOFF} track f; printf 22 > f"})]},
    ),
    Case(
        "workflow, skips",
        (AB, step("skip"), *RAN_B, op("finish")),
        {"runner": [flow({"a": f"{TRUE}\nwhen: 'false'", "b": TRUE})]},
    ),
    Case(
        "workflow, sets a secret",
        (start(steps=["a"]), step("start"), sets(it=SECRET), step("done"), op("finish")),
        {
            "runner": [
                flow(
                    {"a": """run: printf 'it=%s' "$WORKFLOW_SECRET" > "$LEFTOFF_VARS\""""},
                    "secrets: [WORKFLOW_SECRET]",
                )
            ]
        },
        env=OF_A_WORKFLOW,
    ),
    Case(
        "workflow, approval",
        ASKED,
        {"runner": [PUBLISH]},
    ),
    Case(
        "workflow, approval, approved",
        (*ASKED, anyhow(op("approve", step="sign-off")), op("resume"), op("finish")),
        {"runner": [PUBLISH, ("approve", "the-run", "sign-off"), ("resume", "the-run")]},
    ),
    Case(
        "workflow, approval, rejected",
        (*ASKED, anyhow(op("reject", step="sign-off"))),
        {"runner": [PUBLISH, ("reject", "the-run", "sign-off")]},
    ),
    Case(
        "function",
        (start(), step("start", "1-a"), step("done", "1-a", result={"n": 1}), op("finish")),
        {"functions": "a"},
    ),
    Case(
        "function, fails",
        (start(), step("start", "1-a"), step("fail", "1-a", **FAILED), op("finish", status="failed")),
        {"functions": "a!"},
    ),
    # -- what an agent's hooks tell
    hooked("a list", (step("start"), step("done")), todos(a="in_progress"), todos(a="completed")),
    hooked("a list, skipped", (step("skip"),), todos(a="cancelled")),
    hooked(
        "a list, given up and begun again",
        (step("start"), step("done"), step("start")),
        todos(a="in_progress"),
        todos(a="completed"),
        todos(a="in_progress"),
    ),
    hooked(
        "a secret in a list",
        (put("step", "use-redacted", {"title": "use [redacted]", "by": "list"}),),
        todos(**{"a": "pending", f"use {SECRET}": "pending"}),
    ),
    hooked(
        "a task",
        (put("step", "b", {"title": "b", "task": "1"}), step("done", "b")),
        ("TaskCreated", {"task_id": "1", "task_subject": "b"}),
        ("TaskCompleted", {"task_id": "1", "task_subject": "b"}),
    ),
    hooked(
        "a helper",
        (
            put("member", "h1", {"type": "Explore", "message": "found", "status": "completed", "at": NOW}),
            op("save", trigger="agent_complete", note="Explore"),
        ),
        ("SubagentStop", {"agent_id": "h1", "agent_type": "Explore", "last_assistant_message": "found"}),
    ),
    hooked(
        "before a compaction",
        (op("save", note="before the context is compacted (auto)"),),
        ("PreCompact", {}),
    ),
    hooked("after a compaction", (note("all is well"),), ("PostCompact", {"compact_summary": "all is well"})),
    hooked("the end of a turn", (op("save", note="the agent's turn ended"),), ("Stop", {})),
    hooked(
        "the failure of a turn",
        (
            put("error", "session", {"type": "rate_limit", "message": "slow down", "at": NOW}),
            op("save", trigger="error", note="rate_limit"),
        ),
        ("StopFailure", {"error": "rate_limit", "error_details": "slow down"}),
    ),
    hooked("the end of a session", (op("pause", note="logout"),), ("SessionEnd", {"reason": "logout"})),
    hooked(
        "the end of a session, nothing open",
        (step("done"), op("finish", summary="logout")),
        todos(a="completed"),
        ("SessionEnd", {"reason": "logout"}),
    ),
    hooked(
        "a file",
        (write("f", "1"), TRACK),
        ("PreToolUse", WRITES_F),
        ("write", {"path": "f", "text": "1"}),
        ("PostToolUse", WRITES_F),
    ),
)
