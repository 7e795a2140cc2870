"""What each event tells. A table: the event's name, and the function that keeps it and answers."""

from __future__ import annotations

from leftoff.agents.hooks import lists, log
from leftoff.agents.hooks.events import shell_file
from leftoff.operations.sessions import reports
from leftoff.operations.sessions import session as sessions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from leftoff.agents.hooks.events import Event
    from leftoff.operations.sessions.session import Session

NOTHING = b""


# -- sessions


def session_start(session: Session, event: Event) -> bytes:
    """The brief of the session's own run; or a line about one that nobody works on; or nothing."""
    found = sessions.begin(session, again=event.text("source") in ("startup", "resume"))
    _export(session, found.run.run_id if found.run is not None else "")
    if not found.open and found.offered is None and found.fault is None:
        return NOTHING
    from leftoff.agents.hooks import answers

    return answers.context(event.raw, answers.begun(session, found))


def _export(session: Session, run_id: str) -> None:
    """Tell the agent's shell whose session it is, so that its own reports reach its own run."""
    path = shell_file()
    if not path or session.driven:
        return
    given = {"LEFTOFF_SESSION": session.who.session, "LEFTOFF_RUN": run_id}
    quoted = {key: value.replace("'", "'\\''") for key, value in given.items() if "\n" not in value}
    lines = "".join(
        f"export {key}='{value}'\n" if value else f"unset {key}\n" for key, value in quoted.items()
    )
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(lines)
    except OSError as error:  # what the agent is told does not depend on it
        log.note(session.project.store_folder, "CLAUDE_ENV_FILE", str(error))


def prompted(session: Session, event: Event) -> bytes:
    """A turn begins. Whoever says only "resume" gets the brief, and the run that nobody works on if the session has no
    work of its own."""
    answer, asked = NOTHING, event.prompt
    if event.is_nudge:
        return NOTHING
    if event.asks_to_go_on and not session.who.again:
        from leftoff.agents.hooks import answers

        found = sessions.resume(session)
        if found.run is not None or found.offered is not None:
            answer = answers.context(event.raw, answers.resumed(session, found))
    notified = asked.startswith("<task-notification>")
    reports.begin_turn(session, asked, event.text("transcript_path"), goes_on=notified)
    return answer


def session_end(session: Session, event: Event) -> bytes:
    reports.end_session(session, event.text("reason").strip() or "the session ended")
    return NOTHING


# -- tools


def before_tool(session: Session, event: Event) -> bytes:
    reports.before_edit(session, event.paths())
    return NOTHING


def after_tool(session: Session, event: Event) -> bytes:
    """A file that was written is tracked; a todo list or a plan becomes the run's steps."""
    items = lists.listed(event)
    if items is not None:
        reports.keep_list(session, items)
    elif event.tool in ("TaskCreate", "TaskUpdate"):
        task = lists.tool_task(event)
        if task is not None:
            reports.keep_task(session, task)
    else:
        return tool_failed(session, event)
    return NOTHING


def tool_failed(session: Session, event: Event) -> bytes:
    """A command that failed is worth knowing for whoever goes on; a file may have been written in part."""
    failure = event.failure
    if failure is not None:
        reports.failed_commands(session, [failure])
    reports.after_edit(session, event.paths())
    return NOTHING


def task_created(session: Session, event: Event) -> bytes:
    item = lists.task(event, "pending")
    if item.text:
        reports.keep_task(session, item)
    return NOTHING


def task_completed(session: Session, event: Event) -> bytes:
    item = lists.task(event, "completed")
    if item.text or item.task:
        reports.keep_task(session, item, seal=True)
    return NOTHING


# -- turns


def subagent_stop(session: Session, event: Event) -> bytes:
    """A helper is done. One without a kind is the agent's own, which compacts its memory."""
    if event.text("agent_type"):
        said = event.text("last_assistant_message")
        reports.member_done(session, event.text("agent_id"), event.text("agent_type"), said)
    return NOTHING


def before_compact(session: Session, event: Event) -> bytes:
    """A checkpoint. Gemini CLI tells of a compression before each request, whether there is one or not."""
    if event.raw == "PreCompress" and event.text("trigger") != "manual":
        return NOTHING
    reports.before_compaction(session, event.text("trigger"))
    return NOTHING


def after_compact(session: Session, event: Event) -> bytes:
    reports.after_compaction(session, event.text("compact_summary"))
    return NOTHING


def stopped(session: Session, event: Event) -> bytes:
    """The end of a turn: a checkpoint if something changed."""
    turn, transcript, said = event.text("turn_id"), event.text("transcript_path"), event.last_words
    if turn and session.who.agent == "codex":
        reports.failed_in_transcript(session, transcript, turn)
    busy = event.has_helpers
    if event.raw == "AfterAgent":  # it also comes after an interrupt or an error, and does not say so
        from leftoff.engine.read.transcript import ANSWERED, CANCELLED, gemini_end

        end = gemini_end(transcript)
        if end == CANCELLED:
            reports.interrupt_turn(session, said)
            return NOTHING
        busy = end != ANSWERED if end else not said
    reports.end_turn(session, said, busy=busy)
    return NOTHING


def stop_failed(session: Session, event: Event) -> bytes:
    detail = event.text("error_details").strip() or event.text("last_assistant_message")
    reports.fail_turn(session, event.text("error").strip() or "error", detail)
    return NOTHING


EVENTS: dict[str, Callable[[Session, Event], bytes]] = {
    "SessionStart": session_start,
    "UserPromptSubmit": prompted,
    "PreToolUse": before_tool,
    "PostToolUse": after_tool,
    "PostToolUseFailure": tool_failed,
    "TaskCreated": task_created,
    "TaskCompleted": task_completed,
    "SubagentStop": subagent_stop,
    "PreCompact": before_compact,
    "PostCompact": after_compact,
    "Stop": stopped,
    "StopFailure": stop_failed,
    "SessionEnd": session_end,
}
