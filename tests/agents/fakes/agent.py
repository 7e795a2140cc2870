"""A fake of any agent: it speaks the lines of the command line whose name it is called by.

What it does is in the file that FAKE_SCRIPT names: one word per life, taken from the front; then it does its work well.
It writes down each start, each resumed session and each finished task in the folder FAKE_LOG.

ok · crash (in mid-stream, by SIGKILL) · limit (a rate limit, to be waited for) · refuse (a session is not resumed) ·
error (it fails, in its own words) · hang (until it is told to end: exit 143) · die (before it said anything) ·
grumble (a rate limit, on stderr alone) · offline (no network, on stderr alone) · between (SIGKILL between two turns) ·
reconnect (a passing error, then SIGKILL) · slow (takes its time to end) · spend (one turn after another)
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
PROMPT = after("-p") if NAME in ("claude", "gemini") else ARGS[-1]
DO = behaviour()


def begin() -> None:
    if NAME == "claude":
        shown = str(uuid.uuid4()) if RESUMED and os.environ.get("FAKE_NEW_ID") else SESSION
        say(type="system", subtype="init", session_id=shown, tools=[], model="fake")
    elif NAME == "codex":
        say(type="thread.started", thread_id=SESSION)
        say(type="turn.started")
    elif NAME == "gemini":
        say(type="init", session_id=SESSION, model="fake")
    else:
        say(type="step_start", sessionID=SESSION, part={})


def work(text: str) -> None:
    if NAME == "claude":
        block = [{"type": "text", "text": text}, {"type": "tool_use", "name": "Bash", "input": {}}]
        say(type="assistant", message={"content": block}, session_id=SESSION)
    elif NAME == "codex":
        say(type="item.completed", item={"type": "agent_message", "text": text})
    elif NAME == "gemini":
        say(type="message", role="assistant", content=text)
        say(type="tool_use", tool_name="shell")
    else:
        say(type="text", sessionID=SESSION, part={"text": text})


def finish() -> None:
    if NAME == "claude":
        say(
            type="result",
            subtype="success",
            is_error=False,
            result="done",
            session_id=SESSION,
            total_cost_usd=0.25,
            num_turns=3,
        )
    elif NAME == "codex":
        say(type="item.completed", item={"type": "agent_message", "text": "done"})
        say(type="turn.completed", usage={"input_tokens": 1})
    elif NAME == "gemini":
        say(type="message", role="assistant", content="done")
        say(type="result", status="success", stats={})
    else:
        say(type="text", sessionID=SESSION, part={"text": "done"})
        say(type="step_finish", sessionID=SESSION, part={"cost": 0.25})


def fail(message: str, code: int = 1) -> None:
    if NAME == "claude":
        say(
            type="result", subtype="error_during_execution", is_error=True, result=message, session_id=SESSION
        )
    elif NAME == "codex":
        say(type="turn.failed", error={"message": message})
    elif NAME == "gemini":
        say(type="result", status="error", error={"type": "x", "message": message})
    else:
        say(type="error", sessionID=SESSION, error={"message": message})
    sys.exit(code)


def hang() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    while True:
        time.sleep(0.05)


def refuse() -> None:
    """As each of them says it."""
    words = f"No conversation found with session ID: {RESUMED}"
    if NAME == "claude":
        say(
            type="result",
            subtype="error_during_execution",
            is_error=True,
            num_turns=0,
            session_id=str(uuid.uuid4()),
            errors=[words],
        )
    elif NAME == "codex":
        say(type="error", message=f"no rollout found for thread id {RESUMED}")
    elif NAME == "opencode":
        say(type="error", error={"name": "NotFoundError", "data": f"Session not found: {RESUMED}"})
    else:
        print(f"Error resuming session: Invalid session identifier {RESUMED}", file=sys.stderr)
    sys.exit(1)


def end_slowly() -> None:
    """Count how often it is told to end, and take a while."""
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(1))
    note("hangs", session=SESSION)
    while not told:
        time.sleep(0.02)
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        time.sleep(0.02)
    note("ends", told=len(told))
    sys.exit(143)


def spend() -> None:
    for _ in range(1000):
        say(type="step_start", sessionID=SESSION, part={})
        say(type="step_finish", sessionID=SESSION, part={"reason": "tool-calls", "cost": 0.4})
        time.sleep(0.05)


note("start", resumed=RESUMED, session=SESSION, prompt=PROMPT, args=ARGS, does=DO)
os.makedirs(sessions(), exist_ok=True)
if DO == "die":
    os.kill(os.getpid(), signal.SIGKILL)
if DO in ("grumble", "offline"):
    limit = "Error 429 Too Many Requests: quota exceeded. Retry-After: 1"
    print(limit if DO == "grumble" else "Error: getaddrinfo ENOTFOUND api.example.org", file=sys.stderr)
    sys.exit(1)
if RESUMED and DO == "refuse":
    refuse()
if RESUMED and (not os.path.exists(os.path.join(sessions(), RESUMED))):
    print(f"No conversation found with session ID: {RESUMED}", file=sys.stderr)
    sys.exit(1)
open(os.path.join(sessions(), SESSION), "a").close()
begin()
work("working")
time.sleep(float(os.environ.get("FAKE_SLEEP", "0")))
if DO == "crash":
    os.kill(os.getpid(), signal.SIGKILL)
elif DO == "limit":
    fail("API Error: rate limit reached, try again in 1s")
elif DO == "error":
    fail("it is too hard")
elif DO == "between":
    say(type="step_finish", sessionID=SESSION, part={"reason": "tool-calls", "cost": 0.01})
    os.kill(os.getpid(), signal.SIGKILL)
elif DO == "reconnect":
    say(type="error", message="Reconnecting... 1/5")
    os.kill(os.getpid(), signal.SIGKILL)
elif DO == "slow":
    end_slowly()
elif DO == "spend":
    spend()
elif DO == "hang":
    note("hangs", session=SESSION)
    hang()
note("finish", session=SESSION)
finish()
