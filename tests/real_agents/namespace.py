"""A place with no way out: namespaces of its own for the network, with a loopback only, for processes and for /tmp.

Nothing that an agent does can leave the machine, and nothing that it starts outlives the bed.
"""

from __future__ import annotations

import os
import subprocess
import sys

_MARK = "LEFTOFF_AGENTS_INSIDE"


def inside() -> bool:
    return bool(os.environ.get(_MARK))


def enter(words: list[str], module: str = "tests.real_agents") -> None:
    """Start this very program again inside, unless we are there."""
    if inside():
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    line = ["unshare", *user, "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if subprocess.run([*line, "true"], capture_output=True).returncode != 0:
        raise SystemExit(
            "make agents needs namespaces of its own (unshare): run it as root, or allow them to users."
        )
    os.environ[_MARK] = "1"
    again = [sys.executable, "-m", module, *words]
    # The temporary folder is their own as well: the sandbox of Codex makes a `.git` in it for a while, and every test
    # of this machine below it would take that for its repository. bash buries whom nobody waits for.
    os.execvp(line[0], [*line, "bash", "-c", 'mount -t tmpfs tmpfs /tmp && "$@"; exit $?', "bed", *again])
