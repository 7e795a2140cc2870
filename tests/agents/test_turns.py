"""A turn is work: a prompt opens it, and whatever an agent was doing when it died, the next session is told."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.agents.hooking import Living, Session, runs, turns
from tests.cli.command import succeed
from tests.workspace.trees import git

AGENTS = {
    "claude": ("UserPromptSubmit", "Stop"),
    "codex": ("UserPromptSubmit", "Stop"),
    "gemini": ("BeforeAgent", "AfterAgent"),
}


@pytest.mark.parametrize("agent", AGENTS)
def test_killed_in_its_first_turn(agent: str, repository: Path) -> None:
    """Without a list, without a file: the next session is told in one line, and gets the brief when it takes it."""
    prompt, stop = AGENTS[agent]
    dead = Living(repository, "dead", agent)
    dead.fire("SessionStart", source="startup")
    dead.fire(prompt, prompt="Write the guide")
    dead.kill()
    other = Session(repository, "other", agent)
    told = other.context("SessionStart", source="startup")
    assert told is not None and told.startswith("Unfinished: “Write the guide”") and "Write the guide" in told
    assert "\n" not in told
    brief = other.context(prompt, prompt="resume")
    assert brief is not None and "was killed in mid-task at " in brief and "Task: “Write the guide" in brief
    other.writes("guide.md", "# Guide\n")
    other.fire(stop, last_assistant_message="It is written.", prompt_response="It is written.")
    other.fire("SessionEnd", reason="exit")
    (run,) = runs(repository)
    assert ("completed", "other") == (run["status"], run["session_id"])
    assert ["interrupted", "completed"] == [turn["status"] for turn in turns(repository)]


def cut_off(cwd: Path, agent: str = "claude") -> str:
    """A session is killed in its first turn, after half of the work; the run."""
    dead = Living(cwd, "dead", agent)
    dead.fire(AGENTS[agent][0], prompt="Write a and b")
    dead.writes("a", "a\n")
    dead.kill()
    return str(runs(cwd)[0]["run_id"])


def goes_on(cwd: Path, name: str, agent: str = "claude") -> Session:
    """A new session whose user says that it shall continue."""
    session = Session(cwd, name, agent)
    assert session.context(AGENTS[agent][0], prompt="continue") is not None
    return session


def ends(session: Session, said: str) -> None:
    session.fire(AGENTS[session.agent][1], last_assistant_message=said, prompt_response=said)
    session.fire("SessionEnd", reason="exit")


@pytest.mark.parametrize("agent", AGENTS)
def test_a_turn_that_was_cut_off_is_open_until_something_is_done(agent: str, repository: Path) -> None:
    """A session that continues it and only talks completes nothing: the next one is told. One that changes a file, by
    whatever means, completes it."""
    run_id = cut_off(repository, agent)
    for name in ("second", "third"):
        ends(goes_on(repository, name, agent), "I cannot write here. Shall I try again?")
        assert [(run_id, "paused")] == [(run["run_id"], run["status"]) for run in runs(repository)]
        told = Session(repository, f"after {name}", agent).context("SessionStart", source="startup")
        assert told is not None and run_id in told
    brief = succeed("brief", cwd=repository).out
    assert (
        "Unanswered question to the user: “Shall I try again?”" in brief and "Task: “Write a and b" in brief
    )
    last = goes_on(repository, "last", agent)
    (repository / "b").write_text("b\n")  # by its shell
    ends(last, "b is written.")
    assert [(run_id, "completed")] == [(run["run_id"], run["status"]) for run in runs(repository)]
    assert (
        "leftoff run" in (brief := succeed("brief", "latest", cwd=repository).out)
        and "unfinished" not in brief
    )


def test_a_commit_closes_a_turn_that_was_cut_off(repository: Path) -> None:
    """Also if the work tree is as clean as before: the agent's shell wrote a file and committed it."""
    cut_off(repository)
    session = goes_on(repository, "other")
    (repository / "b").write_text("b\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "b")
    ends(session, "Committed.")
    assert ["completed"] == [run["status"] for run in runs(repository)]


def test_a_change_that_was_asked_for_by_something_else_closes_no_turn(repository: Path) -> None:
    """The file is in no word of what was cut off, and its turn asked for something of its own. Then the user has the
    rest done."""
    cut_off(repository)
    session = goes_on(repository, "other")
    session.fire("Stop", last_assistant_message="I cannot.")
    session.fire("UserPromptSubmit", prompt="Fix the typo in the README")
    session.writes("README.md", "fixed\n")
    session.fire("Stop", last_assistant_message="Fixed.")
    session.fire("SessionEnd", reason="exit")
    assert ["paused"] == [run["status"] for run in runs(repository)]
    last = goes_on(repository, "last")
    last.fire("UserPromptSubmit", prompt="Now write b")
    last.writes("b", "b\n")
    ends(last, "b is written.")
    assert ["completed"] == [run["status"] for run in runs(repository)]


QUESTIONS = {
    "Redis or a dict?": "Redis or a dict?",
    "I looked. **Shall I use Redis?**\n\n1. Redis\n2. a dict": "Shall I use Redis?",
    "Which store (Redis or a dict)? (I prefer a dict)": "Which store (Redis or a dict)?",
    "Why did it fail? The port was taken. Fixed.": "",
    "Done. Is there anything else?": "",
}


@pytest.mark.parametrize("said", QUESTIONS)
def test_a_turn_that_ends_with_a_question_waits(said: str, repository: Path, living: Living) -> None:
    """Its session dies: the next one is told what was asked. The answer of the user ends the wait."""
    living.fire("UserPromptSubmit", prompt="Add a cache")
    living.fire("Stop", last_assistant_message=said)
    question = QUESTIONS[said]
    assert ["waiting" if question else "completed"] == [turn["status"] for turn in turns(repository)]
    living.kill()
    told = Session(repository, "other").context("SessionStart", source="startup")
    if not question:
        assert told is None
        return
    assert told is not None and "Add a cache" in told
    assert question == turns(repository)[0]["question"]
    other = goes_on(repository, "third")
    other.fire("Stop", last_assistant_message=said)
    other.fire("UserPromptSubmit", prompt="A dict")
    ends(other, "It is a dict now.")
    assert ["completed"] == [run["status"] for run in runs(repository)]


def test_the_brief_has_each_question_once(repository: Path, living: Living) -> None:
    """A question that ends the last words is not in them as well. An earlier one that is not answered stays."""
    living.fire("UserPromptSubmit", prompt="Add a cache")
    living.fire("Stop", last_assistant_message="It has no limit. Redis or a dict?")
    living.kill()
    goes_on(repository, "third").fire("Stop", last_assistant_message="I looked. Shall I begin?")
    told = succeed("brief", "latest", cwd=repository).out
    assert "Last words: “I looked.”\n" in told
    assert "Unanswered question to the user: “Redis or a dict? Shall I begin?”\n" in told


def test_an_answer_after_an_error_leaves_the_turn_open(repository: Path) -> None:
    """The same session: it says something, and does nothing of what it was asked for."""
    session = Session(repository)
    session.fire("UserPromptSubmit", prompt="Write a and b")
    session.fire("StopFailure", error="rate_limit")
    session.fire("UserPromptSubmit", prompt="Are you there?")
    ends(session, "Yes.")
    assert ["paused"] == [run["status"] for run in runs(repository)]


def test_what_a_person_changes_between_two_turns_is_not_what_the_agent_did(repository: Path) -> None:
    """It closes no turn that was cut off."""
    cut_off(repository)
    session = goes_on(repository, "other")
    session.fire("Stop", last_assistant_message="I cannot.")
    (repository / "notes.txt").write_text("by a person\n")
    session.fire("UserPromptSubmit", prompt="And now?")
    ends(session, "I cannot.")
    assert ["paused"] == [run["status"] for run in runs(repository)]
    assert not any("notes.txt" in turn.get("files", ()) for turn in turns(repository))


@pytest.mark.parametrize(("second", "status"), [("completed", "completed"), ("in_progress", "paused")])
def test_a_todo_list_says_whether_a_turn_that_was_cut_off_is_done(
    second: str, status: str, repository: Path, living: Living
) -> None:
    """Killed before it could say that all is done: the answer of the next session is enough."""
    living.fire("UserPromptSubmit", prompt="Write a and b")
    living.todos(a="completed", b=second)
    living.kill()
    ends(goes_on(repository, "other"), "All is done.")
    assert [status] == [run["status"] for run in runs(repository)]


def test_a_todo_list_of_an_earlier_turn_says_nothing(repository: Path, living: Living) -> None:
    """It was done before the turn began that was cut off."""
    living.fire("UserPromptSubmit", prompt="Write a")
    living.todos(a="completed")
    living.fire("Stop", last_assistant_message="Done.")
    living.fire("UserPromptSubmit", prompt="Write b")
    living.kill()
    ends(goes_on(repository, "other"), "I cannot.")
    assert ["paused"] == [run["status"] for run in runs(repository)]


@pytest.mark.parametrize("words", [("finish", "--run"), ("step", "done", "b", "--run")])
def test_a_person_closes_a_turn_that_was_cut_off(words: tuple[str, ...], repository: Path) -> None:
    """By finishing the run, or by reporting what was left as done."""
    succeed(*words, cut_off(repository), cwd=repository)
    assert Session(repository, "next").context("SessionStart", source="startup") is None
    assert ["completed"] == [run["status"] for run in runs(repository)]
    assert (
        "leftoff run" in (brief := succeed("brief", "latest", cwd=repository).out)
        and "unfinished" not in brief
    )


def test_a_step_that_the_agent_reports_leaves_its_turn_open(repository: Path, living: Living) -> None:
    """It is still at work; killed now, the next session is told."""
    living.fire("UserPromptSubmit", prompt="Write a and b")
    (run,) = runs(repository)
    succeed("step", "done", "a", "--run", run["run_id"], cwd=repository, LEFTOFF_SESSION="dead")
    living.kill()
    assert Session(repository, "next").context("SessionStart", source="startup") is not None


NUDGE = (
    "[System: You successfully executed a tool but returned an empty response. Please analyze the tool output and "
    "explain your progress or final answer.]"
)
TOOL_DONE = {"type": "user", "content": [{"functionResponse": {"name": "write_file", "response": {}}}]}
CANCELLED = {"type": "info", "content": "Request cancelled."}
TOUCHED = {"$set": {"lastUpdated": "2026-11-18T12:44:29.907Z"}}


def says(text: str) -> dict[str, object]:
    return {"type": "gemini", "content": text, "thoughts": [], "model": "gemini-2.5-pro"}


class Gemini(Session):
    """A session of Gemini CLI, which writes a transcript: one message a line, as version 0.61.0 does."""

    def __init__(self, cwd: Path) -> None:
        super().__init__(cwd, "s1", "gemini")
        self.path = cwd / ".git" / "chat.jsonl"
        self.path.touch()

    def writes_down(self, *messages: object) -> None:
        with self.path.open("a") as file:
            file.writelines(json.dumps(one) + "\n" for message in messages for one in (message, TOUCHED))

    def asked(self, prompt: str) -> None:
        self.fire("BeforeAgent", prompt=prompt, transcript_path=str(self.path))
        self.writes_down({"type": "user", "content": [{"text": prompt}]})

    def stops(self, said: str) -> None:
        self.fire("AfterAgent", prompt="", prompt_response=said, transcript_path=str(self.path))


@pytest.mark.parametrize("said", ["I begin.", "[no response text]"])
def test_an_interrupt_of_gemini_ends_no_turn_well(said: str, repository: Path) -> None:
    """Its event looks as after an answer; its transcript has the interrupt. What it asks itself afterwards is no prompt
    of the user's, and the answer to that completes nothing, whatever else is done."""
    session = Gemini(repository)
    session.asked("Write a and b")
    session.writes("a", "a\n", tool="write_file")
    session.writes_down(says(""), TOOL_DONE, CANCELLED)
    session.stops(said)
    assert ["interrupted"] == [turn["status"] for turn in turns(repository)]
    session.asked(NUDGE)
    session.writes_down(says("All done."))
    session.stops("All done.")
    (turn,) = turns(repository)
    assert ("Write a and b", "interrupted") == (turn["prompt"], turn["status"])
    assert "[no response text]" not in json.dumps(turn)
    session.fire("SessionEnd", reason="exit")
    assert ["paused"] == [run["status"] for run in runs(repository)]
    assert "[System" not in succeed("brief", cwd=repository).out


def test_an_answer_of_gemini_ends_its_turn(repository: Path) -> None:
    """Also one that Gemini CLI had to ask for itself, as the agent said nothing after its tool; and one after an
    interrupt of an earlier turn."""
    session = Gemini(repository)
    session.asked("Write a")
    session.writes_down(CANCELLED)
    session.stops("[no response text]")
    session.asked("Write a and b")
    session.writes("a", "a\n", tool="write_file")
    session.writes_down(says("I write."), TOOL_DONE, says(""))
    session.stops("I write.")
    session.asked(NUDGE)
    session.writes_down(says("Both are written."))
    session.stops("Both are written.")
    session.fire("SessionEnd", reason="exit")
    assert ["interrupted", "completed"] == [turn["status"] for turn in turns(repository)]
    assert "Both are written." == turns(repository)[1]["said"]
    assert ["completed"] == [run["status"] for run in runs(repository)]


def test_gemini_that_ends_without_an_answer_leaves_its_turn_open(repository: Path) -> None:
    """In a terminal it calls its hooks after an error of its service, too."""
    session = Gemini(repository)
    session.asked("Write a and b")
    session.stops("[no response text]")
    session.fire("SessionEnd", reason="exit")
    assert ["paused"] == [run["status"] for run in runs(repository)]


@pytest.mark.parametrize(
    ("said", "status"), [("It is written.", "completed"), ("[no response text]", "paused")]
)
def test_gemini_without_a_transcript(said: str, status: str, repository: Path) -> None:
    """Then its event is all there is: an answer without a text is none."""
    session = Gemini(repository)
    session.path.unlink()
    session.fire("BeforeAgent", prompt="Write it")
    session.writes("a", "a\n", tool="write_file")
    session.fire("AfterAgent", prompt="Write it", prompt_response=said)
    session.fire("SessionEnd", reason="exit")
    assert [status] == [run["status"] for run in runs(repository)]


def test_the_same_session_comes_back(repository: Path, living: Living) -> None:
    """`claude --resume` of a session that was killed gets its own brief."""
    living.fire("UserPromptSubmit", prompt="Write the guide")
    living.kill()
    told = Session(repository, "dead").context("SessionStart", source="resume")
    assert told is not None and "was killed in mid-task at " in told and "Write the guide" in told


def test_a_turn_that_failed_is_open(repository: Path) -> None:
    """An error of the service: the session is paused, and says why; no other ending than a good one is one."""
    session = Session(repository)
    session.fire("UserPromptSubmit", prompt="Write the guide")
    session.fire("StopFailure", error="rate_limit", last_assistant_message="API Error: 429 slow down")
    session.fire("SessionEnd", reason="other")
    (run,) = runs(repository)
    assert "paused" == run["status"]
    brief = succeed("brief", cwd=repository).out
    assert re.search("Claude Code was stopped by an error at .*: “API Error: 429 slow down”", brief)
    told = Session(repository, "s2").context("SessionStart", source="startup")
    assert told is not None and "Write the guide" in told


def test_a_turn_that_nobody_ended_is_open_at_the_end(repository: Path) -> None:
    """Codex tells nothing of an error of its service: its session just ends."""
    session = Session(repository, agent="codex")
    session.fire("UserPromptSubmit", prompt="Write the guide")
    session.fire("SessionEnd", reason="other")
    assert ["paused"] == [run["status"] for run in runs(repository)]
    assert ["interrupted"] == [turn["status"] for turn in turns(repository)]


def test_what_a_session_did_can_be_read(repository: Path) -> None:
    """What was asked, what was done, where it stopped, what is left: by people and by agents."""
    session = Session(repository)
    session.fire("UserPromptSubmit", prompt="Write the guide")
    session.writes("guide.md", "# Guide\n")
    (repository / "notes.txt").write_text("BETA\n")
    bash = {"tool_name": "Bash", "tool_input": {"command": "make test"}}
    session.fire("PostToolUseFailure", **bash, error="Exit code 2\nno rule", is_interrupt=False)
    session.fire("Stop", last_assistant_message="The guide is written.")
    session.fire("UserPromptSubmit", prompt="Now ship it")
    (first, second) = turns(repository)
    assert ["guide.md", "notes.txt"] == first["files"]
    assert [{"command": "make test", "error": "Exit code 2\nno rule"}] == first["failed"]
    assert ("The guide is written.", "running") == (first["said"], second["status"])
    told = succeed("show", "latest", cwd=repository).out
    for words in (
        "Asked, newest first",
        "Write the guide",
        "changed guide.md, notes.txt",
        "Where it stopped",
    ):
        assert words in told
    assert "what turn 2 was asked: “Now ship it" in told
    brief = succeed("brief", "latest", cwd=repository).out
    assert "Task: “Now ship it”" in brief and "Asked before: “Write the guide”" in brief


def test_secrets_in_a_prompt_are_masked(repository: Path) -> None:
    """Also one that would be cut in two, where a prompt is longer than what is kept."""
    key = "ghp_" + "a1B2" * 9
    session = Session(repository)
    session.fire("UserPromptSubmit", prompt="x" * 1980 + f" {key} and more")
    (turn,) = turns(repository)
    assert "ghp_a1B2" not in json.dumps(turn) and 2000 >= len(turn["prompt"])


def test_helpers_that_are_at_work_keep_a_turn_open(repository: Path) -> None:
    """It goes on with what they say; nobody asked that anew."""
    task = {"id": "a1", "type": "subagent", "status": "running"}
    session = Session(repository)
    session.fire("UserPromptSubmit", prompt="Ask a helper")
    session.fire("Stop", last_assistant_message="I wait.", background_tasks=[task])
    assert ["running"] == [turn["status"] for turn in turns(repository)]
    session.fire("UserPromptSubmit", prompt="<task-notification>\n<task-id>a1</task-id>")
    session.fire("Stop", last_assistant_message="All done.", background_tasks=[])
    assert [("completed", "All done.")] == [(turn["status"], turn["said"]) for turn in turns(repository)]


@pytest.mark.parametrize(
    "line",
    [
        {
            "type": "assistant",
            "message": {"role": "assistant", "content": [{"type": "text", "text": "Half done."}]},
        },
        {"type": "response_item", "payload": {"role": "assistant", "content": [{"text": "Half done."}]}},
        {"type": "gemini", "content": "Half done."},
        {"type": "assistant", "message": {"role": "model", "parts": [{"text": "Half done."}]}},
    ],
)
def test_the_last_words_of_the_dead_are_in_its_transcript(
    line: object, repository: Path, living: Living
) -> None:
    """Each agent's own form of it; cut off in the middle of a line, as a kill leaves it."""
    path = repository.parent / f"{repository.name}.jsonl"
    asked = {"type": "user", "message": {"role": "user", "content": "Write the guide"}}
    earlier = {"type": "assistant", "message": {"role": "assistant", "content": "Of an earlier turn."}}
    living.fire("UserPromptSubmit", prompt="Write the guide", transcript_path=str(path))
    living.kill()
    path.write_text("\n".join(json.dumps(one) for one in (earlier, asked)))
    assert "Last words" not in succeed("brief", "latest", cwd=repository).out
    path.write_text("\n".join(json.dumps(one) for one in (earlier, asked, line)) + '\n{"type": "assis')
    assert "Last words: “Half done." in succeed("brief", "latest", cwd=repository).out
    path.unlink()


def test_an_error_of_the_service_does_not_replace_the_last_words(repository: Path) -> None:
    """Claude Code writes the error to its transcript as if the agent had said it. The brief has the last words, and the
    error once: as the end of the turn."""
    path = repository.parent / f"{repository.name}.jsonl"
    error = "API Error: Request rejected (429) · slow down"

    def line(text: str, **more: object) -> str:
        said = {"role": "assistant", "content": [{"type": "text", "text": text}]}
        return json.dumps({"type": "assistant", "message": said, **more})

    asked = {"type": "user", "message": {"role": "user", "content": "Write the guide"}}
    session = Session(repository)
    session.fire("UserPromptSubmit", prompt="Write the guide", transcript_path=str(path))
    path.write_text(
        "\n".join((json.dumps(asked), line("I will cap it with min()."), line(error, isApiErrorMessage=True)))
    )
    session.fire("StopFailure", error="rate_limit", last_assistant_message=error)
    session.fire("SessionEnd", reason="other")
    for verb in ("brief", "show"):
        told = succeed(verb, "latest", cwd=repository).out
        assert "ast words: “I will cap it with min()." in told, verb
        assert f": “{error}" in told and 1 == told.count("(429)"), verb
    path.unlink()


@pytest.mark.parametrize("agent", AGENTS)
def test_the_brief_has_what_a_dead_session_changed_by_its_shell(agent: str, repository: Path) -> None:
    """No event tells of that: it is looked up for whoever takes the run, and what was there before is not in it."""
    prompt, dead = AGENTS[agent][0], Living(repository, "dead", agent)
    to = "codex" if agent == "claude" else "claude"
    (repository / "mine.txt").write_text("by the user\n")
    dead.fire(prompt, prompt="Write the guide")
    dead.writes("guide.md", "# Guide\n")
    (repository / "notes.txt").write_text("by sed\n")
    (repository / "new.txt").write_text("by a shell\n")
    dead.kill()
    before = succeed("show", "latest", "--json", cwd=repository).out
    told = [succeed("brief", cwd=repository).out]
    assert "notes.txt" in succeed("handover", "latest", "--to", to, cwd=repository).out
    assert before == succeed("show", "latest", "--json", cwd=repository).out  # whoever reads changes nothing
    told.append(str(Session(repository, "other", agent).context(prompt, prompt="resume")))
    for one in told:
        files = one.split("Changed: ")[1].split("\n")[0].split(", ")
        assert {"guide.md new +1", "notes.txt +1 -1 (by a shell)", "new.txt new +1 (by a shell)"} == set(
            files
        ), one
        assert "mine.txt" not in one, one


def test_the_brief_of_a_session_that_comes_back_has_what_its_shell_changed(
    repository: Path, living: Living
) -> None:
    """`claude --resume` of the one that was killed."""
    living.fire("UserPromptSubmit", prompt="Change the notes")
    (repository / "notes.txt").write_text("by sed\n")
    living.kill()
    told = Session(repository, "dead").context("SessionStart", source="resume")
    assert told is not None and "Changed: notes.txt +1 -1 (by a shell)" in told


def test_what_a_dead_session_changed_by_its_shell_is_its_turns(repository: Path, living: Living) -> None:
    """Whoever takes the run finds it there; and rolls it back to what was before."""
    before = (repository / "notes.txt").read_text()
    living.fire("UserPromptSubmit", prompt="Change the notes")
    (repository / "notes.txt").write_text("half\n")
    living.kill()
    other = Session(repository, "other")
    other.fire("UserPromptSubmit", prompt="resume")
    assert ["notes.txt"] == turns(repository)[0]["files"]
    first = succeed("log", "latest", "--json", cwd=repository).json["checkpoints"][-1]
    assert "agent_start" == first["trigger"]
    succeed("rollback", first["checkpoint_id"], "--files", "--yes", cwd=repository, LEFTOFF_SESSION="other")
    assert before == (repository / "notes.txt").read_text()


def test_a_word_after_talk_takes_what_nobody_works_on(repository: Path, living: Living) -> None:
    """A session that only talked so far has no work of its own."""
    living.fire("UserPromptSubmit", prompt="Write the guide")
    living.kill()
    other = Session(repository, "other")
    other.fire("UserPromptSubmit", prompt="hello")
    other.fire("Stop", last_assistant_message="Hello.")
    told = other.context("UserPromptSubmit", prompt="continue")
    assert told is not None and "Write the guide" in told
    other.writes("guide.md", "# Guide\n")
    other.fire("Stop", last_assistant_message="Done.")
    other.fire("SessionEnd", reason="exit")
    assert [("completed", "Write the guide")] == [(run["status"], run["title"]) for run in runs(repository)]


def test_a_session_that_talks_stands_back(repository: Path, living: Living) -> None:
    """The only run with steps is still the only one that is meant; once the session died, `brief` means the latest."""
    run_id = succeed("start", "release", "--steps", "a,b", cwd=repository).out.strip()
    living.fire("UserPromptSubmit", prompt="Write the guide")
    succeed("step", "done", "a", cwd=repository)
    assert f"leftoff run {run_id}." in succeed("brief", cwd=repository).out
    living.kill()
    succeed("step", "done", "b", cwd=repository)
    succeed("finish", cwd=repository)
    assert "Write the guide" in succeed("brief", cwd=repository).out


def states(cwd: Path) -> dict[str, str]:
    found = succeed("show", "latest", "--json", cwd=cwd).json["step_records"]
    return {step["step"]: step["status"] for step in found}


def task(session: Session, number: int, subject: str = "", status: str = "") -> None:
    """As Claude Code tells of tasks: by an id, which begins with 1 in each session."""
    if subject:
        answer = {"task": {"id": str(number), "subject": subject}}
        session.fire(
            "PostToolUse", tool_name="TaskCreate", tool_input={"subject": subject}, tool_response=answer
        )
    if status:
        given = {"taskId": str(number), "status": status}
        session.fire("PostToolUse", tool_name="TaskUpdate", tool_input=given, tool_response={"success": True})


def test_a_run_that_is_taken_over_keeps_its_tasks(repository: Path) -> None:
    """Three times: ids begin with 1 again each time, and the same subject is the same step."""
    subjects = ["Write the guide", "Fix notes", "Ship", "Tell"]
    for number, subject in enumerate(subjects):
        living = Living(repository, f"s{number}")
        living.fire("UserPromptSubmit", prompt="resume" if number else "Write it all")
        for place, one in enumerate(subjects[number:]):
            task(living, place + 1, one)
        task(living, 1, status="in_progress")
        task(living, 1, status="completed")
        living.kill()
        done = {one: "completed" for one in subjects[: number + 1]}
        wanted = {one: done.get(one, "pending") for one in subjects}
        assert wanted == titled(repository), subject
    assert 1 == len(runs(repository))


def titled(cwd: Path) -> dict[str, str]:
    found = succeed("show", "latest", "--json", cwd=cwd).json["step_records"]
    return {step["title"]: step["status"] for step in found}


def test_a_list_of_a_session_that_took_over_drops_nothing(repository: Path, living: Living) -> None:
    """What another session planned stays; what it did is done, also where the new list has it as pending, twice."""
    living.fire("UserPromptSubmit", prompt="Write it all")
    living.todos(one="completed", two="in_progress", three="pending")
    living.kill()
    other = Session(repository, "other")
    other.fire("UserPromptSubmit", prompt="resume")
    for _ in range(2):
        other.todos(one="pending", four="in_progress")
    wanted = {"one": "completed", "two": "pending", "three": "pending", "four": "running"}
    assert wanted == states(repository)
    other.todos(one="in_progress", four="completed")
    assert {**wanted, "one": "running", "four": "completed"} == states(repository)
    other.todos(one="completed")
    assert {**wanted, "four": "completed"} == states(repository)


def test_a_task_that_a_session_does_not_know_is_nobodys(repository: Path, living: Living) -> None:
    """Its id is that of another session's task: nothing is changed by it."""
    living.fire("UserPromptSubmit", prompt="Write it all")
    task(living, 1, "Write the guide")
    living.kill()
    other = Session(repository, "other")
    other.fire("UserPromptSubmit", prompt="resume")
    task(other, 1, status="completed")
    assert {"Write the guide": "pending"} == titled(repository)


def test_a_run_that_a_session_starts_is_its_only_one(repository: Path, living: Living) -> None:
    """The turn goes on there: what is written is kept there, and no second run is left behind."""
    living.fire("UserPromptSubmit", prompt="Release it")
    run_id = succeed("start", "release", "--steps", "a,b", cwd=repository, LEFTOFF_SESSION="dead").out.strip()
    living.writes("guide.md", "# Guide\n")
    (run,) = runs(repository)
    assert (run_id, "dead", "alive") == (run["run_id"], run["session_id"], run["health"])
    (turn,) = turns(repository)
    assert ("Release it", "running", ["guide.md"]) == (turn["prompt"], turn["status"], turn["files"])
    living.kill()
    told = Session(repository, "other").context("SessionStart", source="startup")
    assert told is not None and run_id in told


@pytest.mark.parametrize("ending", ["Stop", None])
def test_a_run_that_a_session_starts_ends_with_it(ending: str | None, repository: Path) -> None:
    """It is paused, for it has steps left; and going back to its start brings the files back."""
    session = Session(repository, "s1")
    (repository / "notes.txt").write_text("by hand\n")
    session.fire("UserPromptSubmit", prompt="Release it")
    succeed("start", "release", "--steps", "a,b", cwd=repository, LEFTOFF_SESSION="s1")
    session.writes("guide.md", "# Guide\n")
    (repository / "notes.txt").write_text("by the agent\n")
    if ending is not None:
        session.fire(ending, last_assistant_message="Half of it.")
    session.fire("SessionEnd", reason="exit")
    (run,) = runs(repository)
    assert ("paused", "idle") == (run["status"], run["health"])
    assert ["completed" if ending else "interrupted"] == [turn["status"] for turn in turns(repository)]
    found = succeed("log", "latest", "--json", cwd=repository).json["checkpoints"]
    first = next(one["checkpoint_id"] for one in found if one["trigger"] == "agent_start")
    succeed("rollback", first, "--files", "--yes", cwd=repository)
    assert "by hand\n" == (repository / "notes.txt").read_text() and not (repository / "guide.md").exists()


def test_a_run_that_a_session_takes_by_a_command_is_where_it_goes_on(
    repository: Path, living: Living
) -> None:
    """`leftoff resume RUN` in the middle of a turn: the turn belongs to that run, and ends there."""
    living.fire("UserPromptSubmit", prompt="Write the guide")
    living.kill()
    (run,) = runs(repository)
    other = Session(repository, "other")
    other.fire("UserPromptSubmit", prompt="Please go on with what is left")
    told = succeed("resume", str(run["run_id"]), cwd=repository, LEFTOFF_SESSION="other").out
    assert "Task: “Write the guide" in told
    other.writes("guide.md", "# Guide\n")
    other.fire("Stop", last_assistant_message="Done.")
    other.fire("SessionEnd", reason="exit")
    assert [(run["run_id"], "completed")] == [(one["run_id"], one["status"]) for one in runs(repository)]
    assert ["interrupted", "completed"] == [turn["status"] for turn in turns(repository)]


def test_the_task_stays_the_task_over_hand_overs(repository: Path) -> None:
    """The prompt of a hand-over is leftoff's own: it is not stored, and no brief is in the next one. Each brief has the
    agents that worked on the run before, and the failure that the first one saw."""
    first = Session(repository, "one", "claude")
    first.fire("UserPromptSubmit", prompt="Write a and b, no other file")
    bash = {"tool_name": "Bash", "tool_input": {"command": "make test"}}
    first.fire(
        "PostToolUseFailure", **bash, error="Exit code 2\nAssertionError: 15 != 10", is_interrupt=False
    )
    first.writes("a", "a\n")
    first.fire("StopFailure", error="rate_limit", last_assistant_message="API Error: 429")
    first.fire("SessionEnd", reason="other")
    (run,) = runs(repository)
    for name, agent in (("two", "codex"), ("three", "gemini")):
        told = succeed("handover", str(run["run_id"]), "--to", agent, "--json", cwd=repository).json[
            "command"
        ][-1]
        assert "Task: “Write a and b, no other file”" in told and 1 == told.count("You continue")
        assert "make test” → “AssertionError: 15 != 10" in told
        session = Session(repository, name, agent)
        session.env = {"LEFTOFF_RUN": str(run["run_id"])}
        session.fire(AGENTS[agent][0], prompt=told)
        session.fire("SessionEnd", reason="other")
    assert ["Write a and b, no other file", "", ""] == [turn["prompt"] for turn in turns(repository)]
    brief = succeed("brief", "latest", cwd=repository).out
    assert "Gemini CLI was interrupted in mid-task" in brief
    before = next(line for line in brief.splitlines() if line.startswith("Worked on before: "))
    assert "Claude Code, until " in before and "; Codex, until " in before and "“API Error: 429”" in before


def test_long_texts_keep_what_matters(repository: Path, living: Living) -> None:
    """The line that names the fault, wherever it is; both ends of the prompt and of the last words; what a sub-agent
    found."""
    noise = "line of noise\n" * 400
    living.fire("UserPromptSubmit", prompt=f"Begin with the guide. {noise} End with the index.")
    bash = {"tool_name": "Bash", "tool_input": {"command": "make test"}}
    error = f"Exit code 1\n{noise}E  assert 15 == 10\n{noise}"
    living.fire("PostToolUseFailure", **bash, error=error, is_interrupt=False)
    living.fire(
        "SubagentStop", agent_id="a1", agent_type="Explore", last_assistant_message="It is in lib/x.py."
    )
    living.kill()
    brief = succeed("brief", "latest", cwd=repository).out
    assert "Begin with the guide." in brief and "End with the index." in brief
    assert "→ “E assert 15 == 10”" in brief and "Sub-agent Explore answered: “It is in lib/x.py.”" in brief
    assert len(brief) <= 1600
