"""The table: every operation, as a run that uses it. `allowed` has what another face may say otherwise, and why.

A case is played by every face that has its operations, each in a project of its own, and all must leave the same
records and the same checkpoints as the first of them, which is the command where it has them. `Hooks`, `Runner` and
`Functions` do not take operations one by one: they play a script of their own that must come to the same.
"""

from __future__ import annotations

from tests.parity.operations import (
    AB,
    CLOSED,
    COMMIT,
    DONE_BOTH,
    FAILED,
    ISSUE,
    ISSUES,
    KEY,
    OF_A_WORKFLOW,
    OUTPUT,
    PAUSED,
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
from tests.parity.scripts import SCRIPTED

RAISES = "what artifact() raises ends the step as any exception does"

CASES = (
    # -- start
    Case("start", (start(),)),
    Case("start, title and steps", (start(title="Nature trail", steps=["a", "b/c", "b/d"]),)),
    Case("start, variables", (start(variables={"n": 1, "deep": {"x": [1, {"y": None}]}, "api_key": KEY}),)),
    Case("start, branch", (start(branch="other"),), env={"LEFTOFF_BRANCH": "other"}),
    Case("start, task, agent, total", (start(task="T-1", agent="claude", total=3),)),
    Case("start, issue", (write("issue-42.json", ISSUE), start(issue="#42")), toml=ISSUES),
    Case("start in git", (write("dirty", "1"), AB), git=True),
    Case("start twice", (AB, AB)),
    Case("start, a bad step", (start(steps=["a//b"]),)),
    # -- step
    Case("step start", (AB, step("start"))),
    Case("step done", (AB, step("done"))),
    Case("step start, done", (AB, step("start"), step("done"), step("start", "b"), step("done", "b"))),
    Case("step done twice", (AB, step("done", result=1), step("done", result=2))),
    Case("step done, undeclared", (AB, step("done", "c"), step("done", "d/e"))),
    Case("step done, result", (AB, step("done", result={"n": 1, "deep": [{"x": None}]}))),
    Case("step done, title", (AB, step("done", title="Collect"))),
    Case("step done, total and note", (AB, step("done", total=3, note="it was slow"))),
    Case("step done, outputs", (write("out.txt", "1"), AB, step("done", outputs=["out.txt"]))),
    Case("step start, outputs", (write("out.txt", "1"), AB, step("start", outputs=["out.txt"]))),
    Case("step done, no such output", (AB, step("done", outputs=["out.txt"])), without={"python": RAISES}),
    Case("step done, a tracked file changed", (write("f", "1"), AB, TRACK, write("f", "22"), step("done"))),
    Case(
        "step done, a tracked file is gone",
        (write("f", "1"), AB, TRACK, op("remove", path="f"), step("done")),
    ),
    Case(
        "step done, the issue changed",
        (
            write("issue-42.json", ISSUE),
            start(issue="42", steps=["a/b"]),
            write("issue-42.json", CLOSED),
            step("done", "a/b"),
        ),
        toml=ISSUES,
    ),
    Case(
        "step done, dirty files captured",
        (AB, write("dirty", "1"), step("done")),
        toml="[files]\ngit = true\n",
        git=True,
    ),
    Case("step done in git", (AB, COMMIT, step("done")), git=True),
    Case("step fail", (AB, step("fail", **FAILED))),
    Case("step fail, no reason", (AB, step("fail")), without={"python": "an exception always has a name"}),
    Case("step fail, how to go on", (AB, step("fail", **FAILED, resume_with="ask ops"))),
    Case(
        "step fail, a tracked file changed",
        (write("f", "1"), AB, TRACK, write("f", "22"), step("fail", **FAILED)),
    ),
    Case("step fail, a secret in it", (AB, step("fail", error=f"no {KEY} here", type="ValueError"))),
    Case("step fail, start, done", (AB, step("fail", **FAILED), step("start"), step("done"))),
    Case("step fail, fail", (AB, step("fail", **FAILED), step("fail", error="HTTP 501", type="ValueError"))),
    Case("step fail, skip", (AB, step("fail", **FAILED), step("skip"))),
    Case("step block", (AB, step("block", error="no disk", type="disk", resume_with="buy one"))),
    Case("step block, start", (AB, step("block", error="no disk"), step("start"))),
    Case("step block, done", (AB, step("block", error="no disk"), step("done"))),
    Case("step skip", (AB, step("skip", note="not needed"))),
    Case("step, a bad path", (AB, step("done", "a//b"))),
    Case("step done again after start", (AB, step("done", result=1), step("start"), step("done"))),
    # -- next
    Case("next", (AB, step("done"), op("next"))),
    Case("next, start", (AB, op("next", start=True), op("next", start=True), op("next", start=True))),
    Case("next after a failure", (AB, step("fail", **FAILED), op("next", start=True))),
    # -- set
    Case("set", (AB, sets(n=1, text="x", nothing=None, deep={"x": [1, {"y": 2}]}))),
    Case("set again", (AB, sets(n=[1, 2], m=1), sets(n=[1, 2, 3]))),
    Case("set a secret", (AB, sets(api_key=KEY, text=f"use {KEY} here", deep={"password": KEY, "n": [KEY]}))),
    Case(
        "set a workflow's secret",
        (AB, sets(it=SECRET, text=f"use {SECRET} here", deep={"it": [SECRET]})),
        env=OF_A_WORKFLOW,
    ),
    Case(
        "set what the project calls secret", (AB, sets(pet="rex", n=1)), toml='[redaction]\nnames = ["pet"]\n'
    ),
    Case("set a bad name", (AB, sets(**{"": 1}))),
    # -- a workflow's secret, in every text
    Case(
        "a workflow's secret in a step",
        (AB, step("fail", error=f"no {SECRET}", type="ValueError"), step("done", "b", result={"it": SECRET})),
        env=OF_A_WORKFLOW,
    ),
    Case("a workflow's secret in a note", (AB, note(f"it is {SECRET}")), env=OF_A_WORKFLOW),
    Case("a workflow's secret in a checkpoint", (AB, op("save", note=f"it is {SECRET}")), env=OF_A_WORKFLOW),
    # -- put
    *(
        Case(f"put {collection}", (AB, put(collection, "k", {"text": "x", "deep": [1]})))
        for collection in (
            "message",
            "conflict",
            "knowledge",
            "member",
            "criterion",
            "score",
            "error",
            "context",
            "extra",
        )
    ),
    Case("put again", (AB, put("extra", "k", 1), put("extra", "k", {"api_key": KEY}))),
    Case("put new", (AB, put("extra", "k", 1, new=True), put("extra", "k", 2, new=True))),
    Case("put a step", (AB, put("step", "a", {"title": "Collect"}), put("step", "c", {"title": "New"}))),
    Case("put a bad step", (AB, put("step", "a", 1))),
    Case("put a run", (AB, put("run", "status", "completed"))),
    Case("put an item", (AB, put("item", "k", 1))),
    Case("put what is not there", (AB, put("nonsense", "k", 1))),
    Case("put a variable", (AB, put("variable", "n", {"x": 1}))),
    Case("put a note", (AB, put("note", "n", {"text": "x"}))),
    Case("put an approval", (AB, put("approval", "a", {"status": "approved"}))),
    Case("put a question", (AB, put("approval", "a", {"status": "waiting"}))),
    # -- note, artifact, track, save, beat
    Case("note", (AB, note("the API is slow"), note(f"not {KEY}"))),
    Case("note in a step", (AB, step("start"), note("the API is slow"), step("done"))),
    Case("note, resume and step", (AB, note("drop the table first", resume=True, step="a"))),
    Case("note, empty", (AB, note(" "))),
    Case("artifact", (write("f", "1"), AB, op("artifact", path="f"), op("artifact", path="f", name="again"))),
    Case("artifact of a step", (write("f", "1"), AB, op("artifact", path="f", step="a"))),
    Case("artifact, not there", (AB, op("artifact", path="f"))),
    Case("track", (write("f", "1"), AB, op("track", path="f"), write("f", "22"), op("track", path="f"))),
    Case("track, secret", (write(".env", "A=1"), AB, op("track", path=".env"))),
    Case("track, not there", (AB, op("track", path="f"))),
    Case("save", (AB, op("save"))),
    Case("save, trigger and note", (AB, op("save", trigger="review", note=f"before {KEY}"))),
    Case("save, a bad trigger", (AB, op("save", trigger="nonsense"))),
    Case("save in a step", (AB, step("start"), op("save"))),
    Case("save, a tracked file changed", (write("f", "1"), AB, TRACK, write("f", "22"), op("save"))),
    Case(
        "save, the issue changed",
        (
            write("issue-42.json", ISSUE),
            start(issue="42"),
            write("issue-42.json", CLOSED),
            op("save", trigger="phase_transition"),
        ),
        toml=ISSUES,
    ),
    Case(
        "save in git",
        (AB, write("dirty", "1"), COMMIT, op("save")),
        git=True,
    ),
    Case(
        "save, dirty files captured",
        (AB, write("dirty", "1"), op("save")),
        toml="[files]\ngit = true\n",
        git=True,
    ),
    Case("beat", (AB, op("beat"))),
    # -- approvals
    Case("approval", (AB, REQUEST)),
    Case("approval, options", (AB, op("request", step="sign-off", ask="Which?", options=["one", "two"]))),
    Case("approval of a step that is done", (AB, step("done"), op("request", step="a", ask="Publish?"))),
    Case("approval, approved", (AB, REQUEST, anyhow(op("approve", step="sign-off", note="fine")))),
    Case("approval, rejected", (AB, REQUEST, anyhow(op("reject", step="sign-off")))),
    Case(
        "approval, reported on",
        (AB, REQUEST, step("done", "sign-off"), put("step", "sign-off", {"status": "completed"})),
    ),
    # -- unblock, pause, finish
    Case("unblock", (AB, step("block", error="no disk"), anyhow(op("unblock")))),
    Case("pause", (AB, op("pause"))),
    Case("pause, note", (AB, op("pause", note="waiting for the review"))),
    Case("finish", (*DONE_BOTH, op("finish"))),
    Case("finish, summary", (*DONE_BOTH, op("finish", summary=f"published with {KEY}"))),
    Case("finish as failed", (AB, step("fail", **FAILED), op("finish", status="failed"))),
    Case("finish as abandoned", (AB, op("finish", status="abandoned"))),
    Case("finish badly", (AB, op("finish", status="nonsense"))),
    Case("finish in git", (AB, COMMIT, op("finish")), git=True),
    # -- resume
    Case("resume", (AB, step("done"), PAUSED, op("resume"))),
    Case("resume with a step in flight", (AB, step("start"), PAUSED, op("resume"))),
    Case("resume after a failure", (AB, step("fail", **FAILED), PAUSED, op("resume"), step("done"))),
    Case(
        "resume after a failed end", (AB, step("fail", **FAILED), op("finish", status="failed"), op("resume"))
    ),
    Case("resume what is completed", (*DONE_BOTH, op("finish"), op("resume"))),
    Case("resume what is blocked", (AB, step("block", error="no disk"), op("resume"))),
    Case(
        "resume from a step, done again",
        (
            *DONE_BOTH,
            PAUSED,
            anyhow(op("resume", from_step="a", yes=True)),
            step("start"),
            step("done"),
            step("start", "b"),
            step("done", "b"),
        ),
    ),
    Case(
        "resume from a step, failed then",
        (
            *DONE_BOTH,
            PAUSED,
            anyhow(op("resume", from_step="b", yes=True)),
            step("start", "b"),
            step("fail", "b", **FAILED),
        ),
    ),
    Case("resume, an output is gone", (*OUTPUT, PAUSED, op("remove", path="out.txt"), op("resume"))),
    Case(
        "resume, an output changed, accepted",
        (*OUTPUT, PAUSED, write("out.txt", "22"), op("resume", accept=["outputs.changed"])),
    ),
    Case(
        "resume, a tracked file changed, accepted",
        (write("f", "1"), AB, TRACK, PAUSED, write("f", "22"), op("resume", accept=["files.changed"])),
    ),
    Case("resume, a bad code", (AB, PAUSED, op("resume", accept=["nonsense"]))),
    Case("resume by start", (AB, step("start"), PAUSED, start(resume=True))),
    Case("resume by start, after a failure", (AB, step("fail", **FAILED), PAUSED, start(resume=True))),
    Case(
        "resume by start, with more",
        (AB, step("done"), PAUSED, start(resume=True, steps=["a", "b", "c"], variables={"n": 1})),
    ),
    Case("resume by start, nothing there", (start(resume=True, steps=["a"]),)),
    Case(
        "resume by a word",
        (AB, step("done"), step("start", "b"), op("pause"), op("resume")),
        {
            "hooks": [
                AB,
                step("done"),
                step("start", "b"),
                op("pause"),
                ("UserPromptSubmit", {"prompt": "resume"}),
            ]
        },
    ),
    Case(
        "resume by a word, after a failure",
        (AB, step("fail", **FAILED), op("pause"), op("resume")),
        {"hooks": [AB, step("fail", **FAILED), op("pause"), ("UserPromptSubmit", {"prompt": "resume"})]},
    ),
    # -- history
    Case("rollback", (AB, step("done"), sets(n=1), step("done", "b"), op("rollback", ref="~1"))),
    Case("fork", (AB, step("done"), step("start", "b"), op("fork", branch="other"))),
    # -- questions
    Case("verify", (*OUTPUT, op("verify"))),
    Case("verify, an output changed", (*OUTPUT, write("out.txt", "22"), op("verify"))),
    Case(
        "verify, a tracked file is gone", (write("f", "1"), AB, TRACK, op("remove", path="f"), op("verify"))
    ),
    Case("verify after a failure", (AB, step("fail", **FAILED), op("verify"))),
    Case(
        "brief",
        (
            *OUTPUT,
            note("read this", resume=True),
            step("fail", "b", **FAILED, resume_with="ask"),
            op("brief"),
        ),
    ),
    Case("show", (*OUTPUT, note("a note"), sets(n=1, api_key=KEY), step("fail", "b", **FAILED), op("show"))),
    *SCRIPTED,
)
