"""A fake of any agent: it speaks the lines of the command line whose name it is called by.

What it does is in the file that FAKE_SCRIPT names: one word per life, taken from the front; then it does its work well.
It writes down each start, each resumed session, each SIGTERM and each finished task in the folder FAKE_LOG.

ok · crash (in mid-stream, by SIGKILL) · early (the same, before it says anything) · limit (a rate limit, in a line) ·
limit-stderr (the same, on stderr only) · refuse (a session is not resumed, told in a line) · refuse-stderr (the same,
on stderr only) · offline (the network is gone) · error (it fails, in its own words) · hang (until it is told to end: it
takes a moment to clean up, exit 143) · tools-N (that many tool calls first) · endless (one tool call after another) ·
usage (it was called in the wrong way) · orphan (a launcher that is killed alone, with a child that works on until it
is told to end) · reconnect (a passing error, then crash) · other-id (a resumed session calls itself by another id,
then crash)
"""

import json
import os
import signal
import sys
import time
import uuid

NAME = os.path.basename(sys.argv[0])
ARGS = sys.argv[1:]


def say(**line: object) -> None:
    print(json.dumps(line), flush=True)


def after(*names: str) -> str | None:
    """The word behind one of these."""
    return next((ARGS[ARGS.index(n) + 1] for n in names if n in ARGS), None)


def prompt() -> str:
    """On the command line, where it is meant to be; else on stdin."""
    options = ("--format", "--model", "-s")
    if NAME in ("claude", "gemini"):
        word = after("-p") if "-p" in ARGS else None
        word = None if word is not None and word.startswith("--") else word
    else:
        plain = [w for i, w in enumerate(ARGS) if w[:1] != "-" and (i == 0 or ARGS[i - 1] not in options)]
        word = ARGS[-1] if plain and plain[-1] is ARGS[-1] and plain[-1] not in ("run", "exec") else None
    return sys.stdin.read() if word is None else word


def note(kind: str, **facts: object) -> None:
    path = os.path.join(os.environ["FAKE_LOG"], "log.jsonl")
    line = json.dumps({"kind": kind, "agent": NAME, "step": os.environ.get("LEFTOFF_STEP"), **facts}) + "\n"
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, line.encode())
    os.fsync(fd)
    os.close(fd)


def behaviour() -> str:
    path = os.environ.get("FAKE_SCRIPT")
    if not path or not os.path.exists(path):
        return "ok"
    with open(path) as file:
        words = file.read().split()
    if not words:
        return "ok"
    with open(path, "w") as file:
        file.write(" ".join(words[1:]))
    return words[0]


def sessions() -> str:
    return os.path.join(os.environ["FAKE_LOG"], "sessions")


RESUMED = after("--resume", "resume", "-s")
SESSION = RESUMED or after("--session-id") or str(uuid.uuid4())
DO = behaviour()
CALLED = str(uuid.uuid4()) if DO == "other-id" else SESSION
COST = 0.25


# -- the lines of each


def claude(kind: str, **more: object) -> None:
    say(type=kind, session_id=CALLED, uuid=str(uuid.uuid4()), **more)


def opencode(kind: str, **part: object) -> None:
    about = {"id": f"prt_{uuid.uuid4().hex}", "sessionID": SESSION, "type": kind.replace("_", "-"), **part}
    say(type=kind, timestamp=1, sessionID=SESSION, part=about)


def begin() -> None:
    if NAME == "claude":
        claude("system", subtype="init", tools=["Bash"], model="fake", permissionMode="default")
    elif NAME == "codex":
        say(type="thread.started", thread_id=SESSION)
        say(type="turn.started")
    elif NAME == "gemini":
        say(type="init", timestamp="t", session_id=SESSION, model="fake")
        say(type="message", timestamp="t", role="user", content="…")
    else:
        opencode("step_start")


def work(text: str, number: int = 0) -> None:
    """A word of the model, then a call of a tool and what that said."""
    if NAME == "claude":
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": "ls"}}
        for block in ({"type": "text", "text": text}, call):
            claude("assistant", message={"id": f"msg_{number}", "role": "assistant", "content": [block]})
        told = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "a"}
        claude("user", message={"role": "user", "content": [told]})
    elif NAME == "codex":
        say(type="item.completed", item={"id": f"m{number}", "type": "agent_message", "text": text})
        call = {"id": f"c{number}", "type": "command_execution", "command": "ls", "aggregated_output": ""}
        say(type="item.started", item={**call, "status": "in_progress"})
        say(type="item.completed", item={**call, "status": "completed", "exit_code": 0})
    elif NAME == "gemini":
        say(type="message", timestamp="t", role="assistant", content=text, delta=True)
        say(type="tool_use", timestamp="t", tool_name="shell", tool_id=f"t{number}", parameters={})
        say(type="tool_result", timestamp="t", tool_id=f"t{number}", status="success", output="a")
    else:
        opencode("text", text=text)
        opencode("tool_use", tool="bash", state={"status": "completed"})
        opencode("step_finish", reason="tool-calls", cost=0.01)
        if DO not in ("crash", "reconnect"):
            opencode("step_start")


def cost(part: float) -> dict[str, object]:
    """As Claude says it: of the session in all its lives, and (not in older ones) the part since it last said so."""
    path = os.path.join(sessions(), SESSION)
    with open(path) as file:
        total = round(float(file.read() or 0) + part, 6)
    with open(path, "w") as file:
        file.write(str(total))
    if "FAKE_OLD" in os.environ:
        return {"total_cost_usd": total}
    return {"total_cost_usd": total, "model_usage_since_last_result": {"fake": {"costUSD": part}}}


def finish() -> None:
    if NAME == "claude":
        facts = {
            "duration_ms": 1,
            "num_turns": 3,
            **cost(COST),
            "usage": {},
            "permission_denials": [],
        }
        claude(
            "result", subtype="success", is_error=False, result=os.environ.get("FAKE_RESULT", "done"), **facts
        )
    elif NAME == "codex":
        say(type="item.completed", item={"id": "last", "type": "agent_message", "text": "done"})
        say(type="turn.completed", usage={"input_tokens": 1, "output_tokens": 1})
    elif NAME == "gemini":
        say(type="message", timestamp="t", role="assistant", content="do", delta=True)
        say(type="message", timestamp="t", role="assistant", content="ne", delta=True)
        say(type="result", timestamp="t", status="success", stats={"total_tokens": 1, "tool_calls": 1})
    else:
        opencode("text", text="done")
        opencode("step_finish", reason="stop", cost=COST)


def fail(message: str, *, status: int | None = None) -> None:
    if NAME == "claude":
        subtype = "error_during_execution" if status is None else "success"
        facts = {"api_error_status": status, "num_turns": 1, **cost(0.01)}
        claude("result", subtype=subtype, is_error=True, result=message, **facts)
    elif NAME == "codex":
        say(type="error", message=message)
        say(type="turn.failed", error={"message": message})
    elif NAME == "gemini":
        say(type="result", timestamp="t", status="error", error={"type": "Error", "message": message})
    else:
        about = {"name": "APIError", "data": {"message": message, "statusCode": status}}
        say(type="error", timestamp=1, sessionID=SESSION, error=about)
    sys.exit(1)


def limit() -> None:
    if NAME == "claude":
        info = {"status": "rejected", "resetsAt": int(time.time()) + 1, "rateLimitType": "five_hour"}
        claude("rate_limit_event", rate_limit_info=info)
        said = "You've hit your limit · resets 2pm (Asia/Shanghai)"
        content = [{"type": "text", "text": said}]
        claude("assistant", error="rate_limit", message={"id": "x", "content": content})
        fail(said, status=429)
    fail("You've hit your usage limit. Upgrade to Pro or try again in 0.2 seconds.", status=429)


def refuse() -> None:
    """As each says it where there is no such session."""
    why = {
        "claude": f"No conversation found with session ID: {RESUMED}",
        "codex": f"thread/resume failed: no rollout found for thread id {RESUMED} (code -32600)",
        "gemini": f'Error resuming session: Invalid session identifier "{RESUMED}".',
        "opencode": f"Session not found: {RESUMED}",
    }[NAME]
    if DO == "refuse-stderr" or NAME == "gemini":
        print(why, file=sys.stderr)
        sys.exit({"gemini": 42, "opencode": 0}.get(NAME, 1))
    if NAME == "claude":
        facts = {"subtype": "error_during_execution", "is_error": True, "num_turns": 0, "total_cost_usd": 0}
        say(type="result", session_id=str(uuid.uuid4()), errors=[why], **facts)
    elif NAME == "codex":
        say(type="error", message=why)
    else:
        say(type="error", timestamp=1, error={"name": "NotFoundError", "data": {"message": why}})
    sys.exit(1)


def usage() -> None:
    """As each says it where it does not like how it was called, or where."""
    options = "\n".join(f"  --option-{number}   does what option {number} does" for number in range(120))
    why, code = {
        "claude": (
            "error: option '--permission-mode <mode>' argument 'x' is invalid. Allowed choices are plan.",
            1,
        ),
        "codex": (
            f"error: invalid value 'x' for '--sandbox <SANDBOX_MODE>'\n{'  [possible values]' * 30}\n",
            2,
        ),
        "gemini": (
            "YOLO mode is enabled. All tool calls will be automatically approved.\n" * 2
            + f"\x1b[31mGemini CLI is not running in a trusted directory. {'To proceed, …' * 60}\x1b[0m",
            55,
        ),
        "opencode": (f'Invalid values:\n  Argument: format, Given: "x"\nUsage: opencode\n{options}', 1),
    }[NAME]
    print(why, file=sys.stderr)
    sys.exit(code)


def orphan() -> None:
    """npm's commands are launchers: the child has the session, and does not die with its parent."""
    reader, writer = os.pipe()
    if os.fork():
        os.read(reader, 1)
        os.kill(os.getpid(), signal.SIGKILL)
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(1))
    os.write(writer, b"x")
    end = time.monotonic() + 240  # a test that fails leaves nobody behind
    while not told and time.monotonic() < end:
        time.sleep(0.02)
        work("still working")
    time.sleep(0.3)
    note("gone", session=SESSION)
    sys.exit(0)


def hang() -> None:
    """Ending takes a moment, in which a second signal would interrupt it."""
    told = []

    def end(*_: object) -> None:
        told.append(1)
        note("told", session=SESSION)

    signal.signal(signal.SIGTERM, end)
    note("hangs", session=SESSION, parent=os.getppid())
    while not told:
        time.sleep(0.02)
    time.sleep(0.8)
    sys.exit(143)


note("start", resumed=RESUMED, session=SESSION, prompt=prompt(), args=ARGS, does=DO)
os.makedirs(sessions(), exist_ok=True)
if DO == "early":
    os.kill(os.getpid(), signal.SIGKILL)
elif DO == "offline":
    sys.exit("Error: getaddrinfo ENOTFOUND api.example.com")
elif DO == "usage":
    usage()
elif DO == "limit-stderr":
    sys.exit("Error 429 Too Many Requests: quota exceeded, retry in 0.2s")
if RESUMED and (DO.startswith("refuse") or not os.path.exists(os.path.join(sessions(), RESUMED))):
    refuse()
open(os.path.join(sessions(), SESSION), "a").close()
begin()
for turn in range(int(DO[6:]) if DO.startswith("tools-") else 1):
    work("working", turn)
while DO == "endless":
    turn += 1
    work("still working", turn)
    time.sleep(0.02)
time.sleep(float(os.environ.get("FAKE_SLEEP", "0")))
if DO == "reconnect":
    say(type="error", message="Reconnecting... 1/5")
if DO in ("crash", "reconnect", "other-id"):
    os.kill(os.getpid(), signal.SIGKILL)
elif DO == "limit":
    limit()
elif DO == "error":
    fail("it is too hard")
elif DO == "hang":
    hang()
elif DO == "orphan":
    orphan()
note("finish", session=SESSION)
finish()
