"""A whole run, driven from a shell by nothing but the command, and taken over in the middle by another shell."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.cli.command import LEFTOFF, environment, succeed

FIRST = r"""
set -eu
run=$(leftoff start site --title "Garden site" --steps collect,write,review,publish --var pages=0)
export LEFTOFF_RUN="$run"
[ "$(leftoff next)" = collect ]
leftoff step start collect
echo one > sources.txt
leftoff step done collect --output sources.txt --result '{"sources": 1}'
step=$(leftoff next --start)
[ "$step" = write ]
LEFTOFF_STEP=$step leftoff step done page-1
LEFTOFF_STEP=$step leftoff step done page-2
leftoff set pages=2 tone=friendly
leftoff put knowledge KE-1 '{"fact": "roses are red"}' --new
leftoff note "the second page is short"
leftoff beat
leftoff save --note "two pages"
leftoff step block review --error "no reviewer" --resume-with "ask Ann to review"
leftoff pause
echo "$run"
"""

SECOND = r"""
set -eu
run=$(leftoff start site --resume)
leftoff brief | grep -q "ask Ann to review"
[ "$(leftoff get pages)" = 2 ]
[ "$(leftoff get tone)" = friendly ]
[ "$(leftoff get step/review --json | grep -c blocked)" = 1 ]
leftoff step done write
leftoff step done review --note "Ann said yes"
step=$(leftoff next --start)
[ "$step" = publish ]
echo "<h1>Garden</h1>" > index.html
leftoff artifact index.html --step "$step" --name page
leftoff step done "$step"
[ -z "$(leftoff next)" ]
leftoff finish --summary "published"
echo "$run"
"""


def shell(script: str, cwd: Path) -> str:
    env = environment()
    env["PATH"] = f"{LEFTOFF.parent}:{env['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=cwd, env=env, capture_output=True, text=True, timeout=120
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


def test_an_agent_drives_a_whole_run(tmp_path: Path) -> None:
    """start, next, step, set, put, note, beat, save, pause; then another agent goes on and finishes."""
    assert shell(FIRST, tmp_path) == shell(SECOND, tmp_path)
    found = succeed("show", "latest", "--json", cwd=tmp_path).json
    assert ("completed", 100) == (found["status"], found["percent"])
    assert {"pages": 2, "tone": "friendly"} == found["variables"]
    status = {record["step"]: record["status"] for record in found["step_records"]}
    assert {"completed"} == set(status.values()) and {"write/page-1", "write/page-2"} <= set(status)
    assert {"sources.txt": "collect", "index.html": "publish"} == {
        a["path"]: a["step"] for a in found["artifacts"]
    }
    assert {} == found["records"].get("error", {})
    triggers = [c["trigger"] for c in succeed("log", "latest", "--json", cwd=tmp_path).json["checkpoints"]]
    assert {"step_complete", "manual", "error", "session_end"} == set(triggers)
