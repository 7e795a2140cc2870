#!/usr/bin/env python3
"""The picture in the README: what a real terminal shows while its script is killed and started again.

    tools/pictures.py    run the script of the README, and write docs/pictures/first-minute.svg

The commands are run on a pseudo-terminal of 80 columns in an empty folder; rich draws what they printed.
"""

from __future__ import annotations

import fcntl
import html
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from io import StringIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "pictures" / "first-minute.svg"
COLUMNS = 80
SCENE = (
    "CRASH=inbox/b.pdf python convert.py",
    "leftoff status",
    "python convert.py",
    "leftoff show --steps",
)


def play() -> str:
    """What the terminal shows, with its colours. The folder has a short name: a long one would be cut."""
    with tempfile.TemporaryDirectory(prefix="leftoff-", dir="/tmp") as folder:
        return _played(Path(folder))


def _played(folder: Path) -> str:
    text = README.read_text()
    script = re.search(r"^```python\n(# convert\.py\n.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert script is not None, "the README has no block that starts with `# convert.py`"
    (folder / "convert.py").write_text(script[1])
    (folder / "inbox").mkdir()
    for name in "abc":
        (folder / "inbox" / f"{name}.pdf").touch()
    shown = "".join(f"\x1b[1m$ {command}\x1b[0m\n{_typed(command, folder)}" for command in SCENE)
    return shown.replace(str(folder), "/home/ada/pages")


def _typed(command: str, folder: Path) -> str:
    """What a command prints on a terminal, and what the shell says of its death."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LEFTOFF_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**kept, "PATH": path, "TERM": "xterm-256color", "LEFTOFF_PROJECT": str(folder)}
    for name in ("NO_COLOR", "COLUMNS", "LINES"):
        env.pop(name, None)
    with subprocess.Popen(
        ["bash", "-c", f"exec env {command}"], cwd=folder, env=env, stdin=there, stdout=there, stderr=there
    ) as child:
        os.close(there)
        printed = b""
        while piece := _read(here):
            printed += piece
    os.close(here)
    return printed.decode().replace("\r\n", "\n") + ("Killed\n" if child.returncode == -9 else "")


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except OSError:  # how Linux says that the other side is gone
        return b""


def draw(shown: str) -> str:
    """An SVG of it, which needs no font from elsewhere."""
    from rich.console import Console
    from rich.terminal_theme import MONOKAI
    from rich.text import Text

    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    console.print(Text.from_ansi(shown))
    svg = console.export_svg(title="leftoff", theme=MONOKAI, unique_id="leftoff")
    svg = svg.replace("<svg ", '<svg xml:space="preserve" ', 1)  # or the spaces at a text's ends are dropped
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)


def words_of(svg: str) -> str:
    """The text of a picture, line by line."""
    lines: dict[float, str] = {}
    for y, text in re.findall(r'<text class="leftoff-r\d+"[^>]* y="([\d.]+)"[^>]*>(.*?)</text>', svg):
        lines[float(y)] = lines.get(float(y), "") + html.unescape(text).replace("\xa0", " ")
    return "\n".join(lines[y].rstrip() for y in sorted(lines))


def main() -> int:
    PICTURE.write_text(draw(play()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
