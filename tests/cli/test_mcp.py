"""`leftoff mcp`, driven by the official client over stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from leftoff.agents.mcp_server import Server
from leftoff.agents.mcp_tools import LISTED
from leftoff.agents.mcp_words import for_a_model
from tests.cli.command import LEFTOFF, call, environment, succeed


class Failed(Exception):
    """What a tool answered, where it answered an error."""


class Agent:
    """A client at work."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> Any:
        found = await self.client.call_tool(tool, arguments)
        text = "".join(getattr(part, "text", "") for part in found.content)
        if found.is_error:
            raise Failed(text)
        return json.loads(text)

    async def read(self, uri: str) -> str:
        found = await self.client.read_resource(uri, cache_mode="bypass")
        return "".join(getattr(part, "text", "") for part in found.contents)


def serving(cwd: Path, **env: str) -> StdioServerParameters:
    return StdioServerParameters(command=str(LEFTOFF), args=["mcp"], cwd=str(cwd), env=environment(**env))


def drive(cwd: Path, work: Callable[[Agent], Awaitable[Any]], **env: str) -> Any:
    """Start the server, let a client work with it, stop it."""
    return _drive(serving(cwd, **env), work)


def ask(cwd: Path, work: Callable[[Agent], Awaitable[Any]]) -> Any:
    """The same with a server in this process, where its start makes no difference: it takes a second."""
    return _drive(Server(str(cwd), None), work)


def _drive(server: Server | StdioServerParameters, work: Callable[[Agent], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with Client(server, mode="legacy") as client:
            return await work(Agent(client))

    return asyncio.run(main())


def test_what_it_offers(project: Path) -> None:
    """Every tool, resource and prompt has a description; none of them destroys anything; nothing is made by asking."""

    async def work(agent: Agent) -> None:
        tools = (await agent.client.list_tools()).tools
        assert sorted(LISTED) == sorted(tool.name for tool in tools)
        assert all(len(tool.description or "") > 40 for tool in tools)
        templates = (await agent.client.list_resource_templates()).resource_templates
        wanted = {"run://{run_id}", "run://{run_id}/brief", "checkpoint://{checkpoint_id}"}
        assert wanted == {template.uri_template for template in templates}
        prompts = (await agent.client.list_prompts()).prompts
        assert {"resume", "handover"} == {prompt.name for prompt in prompts}
        assert "list_runs" in (agent.client.instructions or "")
        assert {"runs": []} == await agent.call("list_runs")

    drive(project, work)
    assert [] == list(project.iterdir())


READING = {"list_runs", "show_run"}


def test_every_tool_says_what_it_does(project: Path) -> None:
    """A client that asks nobody (`codex exec`) calls a tool only if its hints say that it reads or destroys nothing."""

    async def work(agent: Agent) -> None:
        for tool in (await agent.client.list_tools()).tools:
            hints = tool.annotations
            assert hints is not None and hints.open_world_hint is False, tool.name
            assert (tool.name in READING) == hints.read_only_hint, tool.name
            assert hints.read_only_hint or hints.destructive_hint is False, tool.name

    ask(project, work)


def test_the_declarations_are_short(project: Path) -> None:
    """A client sends them with every request: 8 tools, 8,000 characters; each parameter has a description."""

    async def work(agent: Agent) -> None:
        tools = (await agent.client.list_tools()).tools
        assert len(tools) <= 8
        assert len(json.dumps([tool.model_dump(by_alias=True, exclude_none=True) for tool in tools])) <= 8000
        for tool in tools:
            for name, about in tool.input_schema["properties"].items():
                assert about.get("description"), (tool.name, name)
        report = next(tool for tool in tools if tool.name == "report_step").input_schema["properties"]
        assert ["running", "completed", "failed", "blocked", "skipped"] == report["status"]["enum"]

    ask(project, work)


def test_answers_are_bounded(project: Path) -> None:
    """A large run is shortened and says so; pages give all of it, and a limit gives long texts in full."""
    steps = [f"step-{number}" for number in range(300)]

    async def text_of(agent: Agent, tool: str, **arguments: Any) -> str:
        found = await agent.client.call_tool(tool, arguments)
        assert not found.is_error
        return "".join(getattr(part, "text", "") for part in found.content)

    async def work(agent: Agent) -> None:
        await agent.call(
            "start_run", workflow="w", run_id="big", steps=steps, variables={"log": "x" * 30_000, "n": 1}
        )
        for number in range(30):
            await agent.call("start_run", workflow="w", title=f"Run {number}")
        for tool, arguments in (
            ("show_run", {}),
            ("show_run", {"part": "variables"}),
            ("show_run", {"compare_to": "big@1"}),
            ("resume_run", {"check_only": True}),
            ("list_runs", {}),
        ):
            named = {} if tool == "list_runs" else {"run_id": "big"}
            assert len(await text_of(agent, tool, **arguments, **named)) <= 8000, (tool, arguments)
        shown = await agent.call("show_run", run_id="big")
        assert 1 == shown["variables"]["n"] and "entries" in shown["left_out"]["step_records"]
        seen, offset = list[str](), 0
        while offset is not None:
            page = await agent.call("show_run", run_id="big", part="step_records", offset=offset)
            seen += [record["step"] for record in page["step_records"]]
            offset = page.get("next_offset")
        assert steps == seen
        whole = await agent.call("show_run", run_id="big", part="variables", limit=10)
        assert 30_000 == len(whole["variables"]["log"])
        first = await agent.call("list_runs")
        second = await agent.call("list_runs", offset=first["next_offset"])
        names = [run["run_id"] for run in (*first["runs"], *second["runs"])]
        assert len(names) == len(set(names)) == len((await agent.call("list_runs", limit=len(names)))["runs"])

    ask(project, work)


def test_a_run_from_its_start_to_its_end(project: Path) -> None:
    """Every tool does what its verb does."""
    (project / "out.txt").write_text("made")

    async def work(agent: Agent) -> None:
        run = await agent.call(
            "start_run", workflow="flow", title="T", steps=["a", {"id": "b", "title": "B"}, "c"]
        )
        name = run["run_id"]
        assert "a" == (await agent.call("next_step", start=True))["step"]
        done = await agent.call(
            "report_step", step="a", status="completed", outputs=["out.txt"], result={"n": 1}
        )
        assert (name, "b") == (done["run_id"], done["next_step"])
        await agent.call("set_variables", variables={"x": [1, 2]})
        await agent.call("put_record", collection="knowledge", key="k", value={"fact": "f"})
        first = await agent.call("save_checkpoint", note="here")
        await agent.call("set_variables", variables={"x": 3}, run_id=name)
        await agent.call("add_note", text="mind the gap", resume=True)
        second = await agent.call("save_checkpoint", trigger="phase_transition")
        found = await agent.call(
            "diff_checkpoints", from_ref=first["checkpoint_id"], to_ref=second["checkpoint_id"]
        )
        assert {"from": [1, 2], "to": 3} == found["variables"]["changed"]["x"]
        shown = await agent.call("show_run")
        assert ["completed", "pending", "pending"] == [step["status"] for step in shown["step_records"]]
        asked = await agent.call("request_approval", step="ship", ask="Ship it?")
        assert f"leftoff approve {name} ship" == asked["how"]
        await agent.call("report_step", step="b", status="failed", error="no", resume_with="try again")
        verdict = await agent.call("verify_resume")
        assert ("resume", "b") == (verdict["verdict"], verdict["resume_from"])
        assert ["skip", "run", "run", "ask"] == [entry["action"] for entry in verdict["plan"]]
        resumed = await agent.call("resume_run")
        assert "running" == resumed["status"] and "mind the gap" in resumed["brief"]
        assert name == json.loads(await agent.read(f"run://{name}"))["run_id"]
        assert "mind the gap" in await agent.read(f"run://{name}/brief")
        sealed = json.loads(await agent.read(f"checkpoint://{first['checkpoint_id']}"))
        assert [1, 2] == sealed["state"]["variables"]["x"]
        for prompt in ("resume", "handover"):
            got = await agent.client.get_prompt(prompt)
            assert "mind the gap" in str(got.messages[0].content)
        ended = await agent.call("finish_run", summary="enough")
        assert "completed" == ended["status"] and "c" in ended["left"]
        assert [name] == [r["run_id"] for r in (await agent.call("list_runs", status=["completed"]))["runs"]]

    ask(project, work)


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("start_run", {}, "start_run needs workflow. It takes workflow (needed), title, steps"),
    ("start_run", {"workflow": ""}, "empty"),
    ("start_run", {"workflow": 5}, "workflow must be a text, not 5."),
    ("start_run", {"workflow": "w", "bogus": 1}, "start_run has no argument 'bogus'. Nothing was changed."),
    ("start_run", {"workflow": "w", "total": -1}, "total must be a whole number from 0 on, not -1."),
    ("start_run", {"workflow": "w", "steps": [["a"]]}, "steps[0] must be a text or an object"),
    ("start_run", {"workflow": "w", "run_id": "the-run"}, "resume_run, or start_run with resume: true"),
    ("starts_run", {}, "Did you mean start_run?"),
    ("report_step", {"step": "a", "state": "failed"}, "Did you mean status?"),
    ("report_step", {"step": "a", "status": "failed", "total": -1}, "total must be"),
    ("report_step", {"step": "a", "status": "completed", "output": [1]}, "output[0] must be a text"),
    ("show_run", {"run": "the-run"}, "Did you mean run_id?"),
    ("list_runs", {"limit": 0}, "from 1 to 500"),
    ("list_runs", {"limit": "few"}, "limit must be a whole number"),
    ("add_note", {"text": " "}, "text is empty"),
    ("request_approval", {"step": "q", "ask": ""}, "ask is empty"),
    ("request_approval", {"step": "q", "ask": "x", "options": []}, "options has nothing"),
    ("resume_run", {"accept": "outputs.gone"}, "There is no finding"),
    ("resume_run", {"accept": "lease.held"}, "resume_run (check_only) says"),
    (
        "resume_run",
        {"accept": ["step.not_idempotent"]},
        "A person decides it, in a shell: leftoff resume the-run",
    ),
    ("resume_run", {"run_id": "the-run@1"}, "is a checkpoint"),
    ("start_run", {"workflow": "w", "steps": 7}, "list"),
    ("start_run", {"workflow": "w", "steps": ["a", "a"]}, "twice"),
    ("start_run", {"workflow": "w", "run_id": "no spaces!"}, "run id"),
    ("report_step", {"step": "a", "status": "almost"}, "completed"),
    ("report_step", {"step": "a//b", "status": "running"}, "step path"),
    ("report_step", {"step": "a", "status": "completed", "outputs": ["/etc/passwd"]}, "outside"),
    ("report_step", {"step": "a", "status": "completed", "outputs": ["gone.txt"]}, "no file"),
    ("save_checkpoint", {"trigger": "whim"}, "Triggers:"),
    ("put_record", {"collection": "nonsense", "key": "k", "value": 1}, "nonsense"),
    ("show_run", {"run_id": "nobody"}, "nobody"),
    ("diff_checkpoints", {"from_ref": "@", "to_ref": "nobody"}, "nobody"),
    ("list_runs", {"status": ["asleep"]}, "asleep"),
    ("finish_run", {"status": "maybe"}, "completed"),
    ("resume_run", {"run_id": "nobody"}, "nobody"),
    ("set_variables", {"variables": {"": 1}}, "empty"),
    ("set_variables", {"variables": [1]}, "variables must be"),
    ("set_variables", {"variables": {"a\0b": 1}}, "NUL"),
    ("set_variables", {}, "needs variables"),
    ("report_step", {"step": "b", "status": "completed", "output": ["o.txt"]}, "o.txt"),
    ("report_step", {"step": ["a"], "status": "running"}, "step must be"),
    ("report_step", {"step": "a\0", "status": "running"}, "NUL"),
    ("report_step", {"step": "a", "status": None}, "needs status"),
    ("report_step", {"step": "x" * 5000, "status": "running"}, "too long"),
    ("start_run", {"workflow": "w", "total": "many"}, "total must be"),
    ("start_run", {"workflow": "w", "run_id": "no\0pe"}, "run id"),
    ("put_record", {"collection": "approval", "key": "gate", "value": {"status": "approved"}}, "a person"),
    ("put_record", {"collection": "run", "key": "status", "value": "completed"}, "finish_run"),
    ("diff_checkpoints", {"from_ref": "@"}, "needs to_ref"),
    ("roll_back", {}, "There are start_run"),
]


def test_wrong_arguments(project: Path) -> None:
    """An error says what is wrong, and the server goes on."""

    async def work(agent: Agent) -> None:
        await agent.call("start_run", workflow="flow", run_id="the-run", steps=["a"])
        await agent.call("save_checkpoint")
        for tool, arguments, word in WRONG:
            with pytest.raises(Failed) as caught:
                await agent.call(tool, **arguments)
            assert word in str(caught.value), (tool, arguments, str(caught.value))
            assert not any(word in str(caught.value) for word in ("Traceback", "pydantic", "executing tool"))
        for uri in ("run://nobody", "run://nobody/brief", "checkpoint://abcd1234", "fun://nobody"):
            with pytest.raises(Exception, match=r"nobody|abcd1234"):
                await agent.read(uri)
        for prompt, given, word in (
            ("resume", {"run_id": "nobody"}, "nobody"),
            ("handover", {"run_id": "nobody"}, "nobody"),
            ("resume", {"run": "x"}, "Did you mean run_id"),
            ("resumes", {}, "Did you mean resume"),
        ):
            with pytest.raises(Exception, match=word):
                await agent.client.get_prompt(prompt, given)
        assert 1 == len((await agent.call("list_runs"))["runs"])

    ask(project, work)


def test_what_is_meant_is_taken(project: Path) -> None:
    """One value where a list may be, a number, a list or an object as text; `output` as the option is called."""
    (project / "o.txt").write_text("made")

    async def work(agent: Agent) -> None:
        run = await agent.call("start_run", workflow="w", steps="a, b", issue=42, task=7, total="2")
        assert ("42", 2) == (run["issue"], run["steps"]["total"])
        done = {"step": "a", "status": "completed"}
        await agent.call("report_step", **done, output="o.txt", note='{"not": "read"}', result=[1])
        shown = await agent.call("show_run", run_id=None)
        assert ["o.txt"] == shown["step_records"][0]["outputs"]
        assert ['{"not": "read"}'] == [note["text"] for note in shown["records"]["note"].values()]
        await agent.call("set_variables", variables='{"x": [1]}')
        assert [1] == (await agent.call("show_run"))["variables"]["x"]
        assert 1 == len((await agent.call("list_runs", status="running", limit="3"))["runs"])
        await agent.call("request_approval", step="q", ask="?", options="yes")
        assert 1 == len((await agent.call("list_runs", status='["running"]'))["runs"])

    ask(project, work)


def git(cwd: Path, *words: str) -> None:
    name = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *name, *words], cwd=cwd, check=True, capture_output=True)


def test_resume_obeys_the_verdict(project: Path) -> None:
    """What refuses, refuses; what a person must decide is asked, with every finding; what they accept goes on."""
    git(project, "init", "-q", "-b", "main")
    git(project, "commit", "-q", "--allow-empty", "-m", "x")
    git(project, "checkout", "-q", "-b", "feat")
    (project / "o.txt").write_text("made")

    async def work(agent: Agent) -> None:
        await agent.call("start_run", workflow="w", run_id="r", steps=["a", "b"])
        await agent.call("report_step", step="a", status="completed", output="o.txt")
        (project / "o.txt").unlink()
        with pytest.raises(Failed, match=r'(?s)- outputs.missing: “o.txt.*accept: \["outputs.missing"\]'):
            await agent.call("resume_run")
        assert "running" == (await agent.call("show_run"))["status"]
        resumed = await agent.call("resume_run", accept="outputs.missing")
        assert ["outputs.missing"] == [finding["code"] for finding in resumed["findings"]]
        await agent.call("report_step", step="b", status="blocked", error="no key")
        with pytest.raises(Failed, match=r"(?s)- blocked.errors: .*- outputs.missing: "):
            await agent.call("resume_run")
        assert "blocked" == (await agent.call("show_run"))["status"]
        git(project, "checkout", "-q", "main")
        git(project, "branch", "-q", "-D", "feat")
        for accept in ([], ["git.branch_gone", "outputs.missing", "blocked.errors"]):
            with pytest.raises(Failed, match=r"(?s)cannot be resumed as things are:.*git.branch_gone"):
                await agent.call("resume_run", accept=accept)
        assert "blocked" == (await agent.call("show_run"))["status"]

    ask(project, work)


def test_no_tool_decides_an_approval(project: Path) -> None:
    """One that the agent asked for, or one of a workflow, which has not even been reached: only a person does."""
    gate = (
        "name: w\nsteps:\n  - id: a\n    run: 'false'\n  - id: gate\n    approval: Deploy?\n    needs: [a]\n"
    )
    (project / "f.yaml").write_text(gate)
    call("run", "f.yaml", "--run-id", "w1", cwd=project)

    async def work(agent: Agent) -> None:
        await agent.call("start_run", workflow="flow", run_id="r", steps=["a", "gate"])
        await agent.call("request_approval", step="gate", ask="Deploy?", run_id="r")
        for run in ("r", "w1"):
            before = (await agent.call("show_run", run_id=run))["records"]
            tries: list[tuple[str, dict[str, Any]]] = [
                ("report_step", {"step": "gate", "status": status})
                for status in ("completed", "running", "failed", "skipped", "blocked")
            ]
            tries += [
                ("put_record", {"collection": "approval", "key": "gate", "value": {"status": "approved"}}),
                ("put_record", {"collection": "step", "key": "gate", "value": {"status": "completed"}}),
                ("put_record", {"collection": "step", "key": "gate", "value": {"title": "harmless"}}),
                ("request_approval", {"step": "gate", "ask": "Something else?"}),
            ]
            for tool, arguments in tries:
                with pytest.raises(Failed, match=r"[Oo]nly a person"):
                    await agent.call(tool, **arguments, run_id=run)
            assert before == (await agent.call("show_run", run_id=run))["records"]

    ask(project, work)
    succeed("approve", "r", "gate", cwd=project)


def test_hints_speak_of_tools() -> None:
    """What is a tool is called so; what is not is left to a shell; and it can be said twice."""
    for said, wanted in (
        ("`leftoff start WORKFLOW` starts one.", "start_run starts one."),
        ("`leftoff ls --all` lists every run.", "list_runs lists every run."),
        (
            "`leftoff step done x --run r` says so",
            "report_step (step: x, status: completed, run_id: r) says so",
        ),
        ("`leftoff resume r --from-step x` asks", "`leftoff resume r --from-step x` in a shell asks"),
        ("--accept age.stale resumes anyway", 'accept: ["age.stale"] resumes anyway'),
        ("Use --branch b, or --run r.", "Pass run_id: r."),
        ("It is silent; take_over=True follows.", "It is silent."),
    ):
        assert wanted == for_a_model(said) == for_a_model(for_a_model(said))


def test_several_unfinished_runs_are_not_mixed_up(project: Path) -> None:
    """Without a name the error lists them; with one, it is that one."""

    async def work(agent: Agent) -> None:
        names = [(await agent.call("start_run", workflow="flow"))["run_id"] for _ in range(2)]
        with pytest.raises(Failed) as caught:
            await agent.call("add_note", text="x")
        assert all(name in str(caught.value) for name in names)
        assert names[1] == (await agent.call("add_note", text="x", run_id=names[1]))["run_id"]

    ask(project, work)


def test_two_clients_and_many_calls(project: Path) -> None:
    """Two servers on one store, 30 calls each, nothing lost."""

    async def one(name: str, run: str) -> None:
        async with Client(serving(project)) as client:
            agent = Agent(client)
            for number in range(30):
                await agent.call("set_variables", variables={f"{name}{number}": number}, run_id=run)

    async def both(run: str) -> None:
        await asyncio.gather(one("a", run), one("b", run))

    run = succeed("start", "flow", cwd=project).out.strip()
    asyncio.run(both(run))
    assert 60 == len(succeed("show", run, "--json", cwd=project).json["variables"])


def test_killed_and_started_again(project: Path) -> None:
    """What was acknowledged is there for the next server."""
    for number in range(2):

        async def work(agent: Agent, number: int = number) -> None:
            if number == 0:
                await agent.call("start_run", workflow="flow", run_id="the-run")
            await agent.call("set_variables", variables={f"v{number}": number})
            shown = await agent.call("show_run", run_id="the-run")
            assert list(range(number + 1)) == sorted(shown["variables"].values())
            await kill_server(project)

        try:
            drive(project, work)
        except BaseExceptionGroup:
            pass  # the client's end of a pipe that is gone
        except (ConnectionError, OSError):
            pass
    assert 2 == len(succeed("show", "the-run", "--json", cwd=project).json["variables"])


async def kill_server(cwd: Path) -> None:
    """Kill the server that works in this folder."""
    import os

    for name in os.listdir("/proc"):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            if name.isdigit() and b"mcp" in words and os.readlink(f"/proc/{name}/cwd") == str(cwd):
                os.kill(int(name), signal.SIGKILL)
        except OSError:
            continue


def test_the_session_of_the_agent(project: Path) -> None:
    """The server works on the run of the session that started it."""
    succeed("start", "one", "--run-id", "mine", "--session", "s1", cwd=project)
    succeed("start", "two", "--run-id", "theirs", cwd=project)

    async def work(agent: Agent) -> Any:
        return await agent.call("add_note", text="x")

    assert "mine" == drive(project, work, LEFTOFF_SESSION="s1")["run_id"]


def test_the_session_that_the_server_was_started_in(project: Path) -> None:
    """Claude Code tells its server which: a run is bound to it before any hook came. An interrupt ends the server at
    once, though nobody has closed its stdin."""
    server = subprocess.Popen(
        [str(LEFTOFF), "mcp"],
        cwd=project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(CLAUDE_CODE_SESSION_ID="abc"),
    )
    assert server.stdin is not None and server.stdout is not None
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    asked: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": about},
        {"method": "notifications/initialized"},
        {
            "id": 2,
            "method": "tools/call",
            "params": {"name": "start_run", "arguments": {"workflow": "release"}},
        },
    ]
    for one in asked:
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **one}).encode() + b"\n")
    server.stdin.flush()
    assert [1, 2] == [json.loads(server.stdout.readline())["id"] for _ in range(2)]
    assert ["abc"] == [run["session_id"] for run in succeed("ls", "--json", cwd=project).json["runs"]]
    server.send_signal(signal.SIGINT)
    assert 130 == server.wait(60)
    assert b"" == server.communicate()[1]
