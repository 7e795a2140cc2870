"""Golden cases: what the command prints today, for everyday calls.

Each file in ``cases`` is one scenario: a transcript of commands in a fresh git repository, with an empty home.

    # A comment.
    > flow.yaml
    | name: build
    $ leftoff start build --run-id r1
      r1
    $ leftoff get colour
    ! leftoff: run r1 has no variable 'colour'.
    = 3

- ``> FILE`` writes a file; its lines follow after ``| ``.
- ``$ COMMAND`` runs a command. Its stdout is indented, lines of stderr start with ``! ``, and ``= N`` is its exit code
  unless that is 0. ``leftoff`` may have variables before it (``LEFTOFF_RUN=r1 leftoff get``) and ``< FILE`` at the
  end. ``cd DIR`` changes the folder for the rest of the file. The shell runs every other command.
- ``$? COMMAND`` records only the exit code, for output whose words are going to change.
- ``~ seq`` hides version numbers from then on, for runs whose number of commits is not a promise.
- Text that differs from run to run is replaced: ``ID-1`` for the first checkpoint id of the file, ``DIGEST-1``,
  ``TIME``. The next commands of the file can use ``ID-1``.

JSON is printed with sorted keys. ``python -m tests.golden --write [NAME…]`` runs the scenarios and writes what the
command prints now; read ``git diff tests/golden`` before you commit that. ``tests/golden/test_golden.py`` compares.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shlex
import socket
import subprocess
from pathlib import Path
from typing import Any

from tests.cli import command

CASES = Path(__file__).parent / "cases"
WIDTH = 120
HOME_VARIABLES = {
    "HOME": "",
    "XDG_STATE_HOME": "state",
    "XDG_CONFIG_HOME": "config",
    "CLAUDE_CONFIG_DIR": ".claude",
    "CODEX_HOME": ".codex",
}
GIT_VARIABLES = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "USER": "ada",
    "LOGNAME": "ada",
    "EDITOR": "true",
}
VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?Z|\+00:00)?"), "TIME"),
    (re.compile(r"(\b|(?<=_))\d{8}[-_T]\d{6}\b(-\d+\b)?"), "STAMP"),
    (re.compile(r"\b20\d{6}\b"), "DAY"),
    (re.compile(r"\b\d+ (s|seconds?|min|h|d|mo|y) ago\b|\bjust now\b"), "AGO"),
    (re.compile(r"\b\d\d:\d\d UTC\b"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)? ?m?s\b"), "SPAN"),
    (
        re.compile(
            r'("(?:duration\w*|seconds|used|left|estimated|pid|bytes\w*|size_on_disk|mtime\w*|elapsed)":) ?[\d.]+'
        ),
        r'\1 "NUMBER"',
    ),
    (re.compile(r"\b(pid|process) \d+( on [\w.-]+)?"), r"\1 NUMBER"),
)
DIGEST = re.compile(r"sha256:[0-9a-f]{12,64}|\b[0-9a-f]{64}\b")
UUID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
CRUNCH = re.compile(r"\bCP-[a-z]+-\d{8}-[0-9a-f]{4,}\b")
KEY = re.compile(r"\b00\d{13}-(\d{4}|written)\b")  # of notes and other records that are added
HEX = re.compile(
    r"(?<![\w.-])(?=[0-9a-f]*[0-9])(?:[0-9a-f]{40}|[0-9a-f]{32}|[0-9a-f]{16}|[0-9a-f]{12})(?![\w-])"
)
SEQ = re.compile(r'("seq":) ?\d+|(?<=@)\d+\b(  +)?')
INTERNAL = frozenset(  # keys whose values are no promise
    "cache seen half_restored events_waiting repaired salvaged extra mirrored".split()
)
PERSON = f"{pwd.getpwuid(os.getuid()).pw_name}@{socket.gethostname()}"


class Session:
    """A fresh project and home, and the commands that run there."""

    def __init__(self, folder: Path) -> None:
        folder = folder.resolve()
        self.project, self.home = folder / "project", folder / "home"
        self.project.mkdir()
        self.home.mkdir()
        self.cwd = self.project
        self.env = GIT_VARIABLES | {name: str(self.home / path) for name, path in HOME_VARIABLES.items()}
        self.names: dict[str, str] = {}  # an id or digest → its placeholder
        self.hide_seq = False
        self.env["PATH"] = f"{command.LEFTOFF.parent}{os.pathsep}{os.environ['PATH']}"
        self.shell("git init -q -b trunk .")

    def transcript(self, text: str) -> str:
        """Run a scenario and return it with what the commands print now."""
        lines, out = text.splitlines(), []
        while lines:
            line = lines.pop(0)
            if line.startswith(("  ", "!", "= ")) or not line:
                continue  # what it printed when it was recorded
            out.append(line)
            if line.startswith("> "):
                written = []
                while lines and lines[0].startswith("|"):
                    out.append(lines[0])
                    written.append(lines.pop(0)[2:] + "\n")
                path = self.cwd / self.real(line[2:])
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("".join(written), encoding="utf-8")
            elif line.startswith("$ "):
                out += self.run(self.real(line[2:]))
            elif line.startswith("$? "):
                out += [said for said in self.run(self.real(line[3:])) if said.startswith("= ")]
            elif line == "~ seq":
                self.hide_seq = True
        return "\n".join(out) + "\n"

    def run(self, words: str) -> list[str]:
        """Run one command and return the lines that record it."""
        if words.startswith("cd "):
            self.cwd = (self.cwd / words[3:]).resolve()
            return []
        if re.match(r"(\w+=\S* )*leftoff\b", words) and not re.search(r" [|&>;]{1,2} ", words):
            code, out, err = self.leftoff(shlex.split(words))
        else:
            code, out, err = self.shell(words)
        printed = [f"  {line}".rstrip() for line in self.normal(out)]
        return printed + [f"! {line}".rstrip() for line in self.normal(err)] + ([f"= {code}"] if code else [])

    def leftoff(self, words: list[str]) -> tuple[int, str, str]:
        env: dict[str, Any] = dict(self.env)
        source = None
        while "=" in words[0]:
            name, _, env[name] = words.pop(0).partition("=")
        if "<" in words:
            source = (self.cwd / words[-1]).read_text()
            words = words[:-2]
        called = command.call(*words[1:], cwd=self.cwd, input=source, **env)
        return called.code, called.out, called.err

    def shell(self, words: str) -> tuple[int, str, str]:
        env = command.environment(**self.env)
        done = subprocess.run(
            ["sh", "-c", words], cwd=self.cwd, env=env, capture_output=True, text=True, timeout=120
        )
        return done.returncode, done.stdout, done.stderr

    def normal(self, text: str) -> list[str]:
        """Return the lines of a text with what varies replaced, and JSON in one form."""
        found = []
        for document in documents(text):
            if isinstance(document, str):
                found += self.replaced(document).splitlines()
            else:
                text = json.dumps(public(document), sort_keys=True, ensure_ascii=False)
                found += pretty(json.loads(self.replaced(text)))
        return found

    def replaced(self, text: str) -> str:
        for value, name in ((self.project, "PROJECT"), (self.home, "HOME"), (self.project.parent, "FOLDER")):
            text = text.replace(str(value), name)
        text = text.replace(PERSON, "PERSON").replace(str(command.LEFTOFF), "leftoff")
        text = DIGEST.sub(lambda match: self.name("DIGEST", match[0]), text)
        text = UUID.sub(lambda match: self.name("UUID", match[0]), text)
        text = CRUNCH.sub(lambda match: self.name("CP", match[0]), text)
        text = KEY.sub(lambda match: self.name("KEY", match[0]), text)
        text = HEX.sub(lambda match: self.name("ID", match[0]), text)
        for pattern, replacement in VARYING:
            text = pattern.sub(replacement, text)
        if not self.hide_seq:
            return text
        return SEQ.sub(
            lambda match: f'{match[1]} "SEQ"' if match[1] else "SEQ  " if match[2] else "SEQ", text
        )

    def name(self, kind: str, value: str) -> str:
        """Return the placeholder of an id: numbered by first appearance."""
        count = sum(name.startswith(kind) for name in self.names.values())
        short = (
            value.removeprefix("sha256:")[:12] if kind == "DIGEST" else value
        )  # people see the first digits
        return self.names.setdefault(short, f"{kind}-{count + 1}")

    def real(self, text: str) -> str:
        """Put the real ids in for their placeholders."""
        ids = {name: value for value, name in self.names.items()}
        return re.sub(r"\b(ID|DIGEST|UUID|KEY|CP)-\d+\b", lambda match: ids.get(match[0], match[0]), text)


def documents(text: str) -> list[Any]:
    """Split output into JSON documents and other text: one document, or one per line."""
    if text.startswith(("{", "[")):
        try:
            return [json.loads(text)]
        except ValueError:
            pass
        try:
            return [json.loads(line) for line in text.splitlines()]
        except ValueError:
            pass
    return [text]


def public(value: Any) -> Any:
    """Return JSON without the keys that are no promise."""
    if isinstance(value, list):
        return [public(item) for item in value]
    if isinstance(value, dict):
        return {
            key: "COUNTS" if key == "checked" else public(item)
            for key, item in value.items()
            if key not in INTERNAL
        }
    return value


def pretty(value: Any, indent: str = "", key: str = "") -> list[str]:
    """Format JSON in lines that are filled up to the width."""
    line = f"{indent}{key}{json.dumps(value, ensure_ascii=False)}"
    if len(line) <= WIDTH or not isinstance(value, dict | list) or not value:
        return [line]
    pairs = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    left, right = "{}" if isinstance(value, dict) else "[]"
    lines, filling = [f"{indent}{key}{left}"], False
    for name, item in pairs:
        label = "" if name is None else f"{json.dumps(name, ensure_ascii=False)}: "
        parts = pretty(item, indent + " ", label)
        if filling and len(parts) == 1 and len(lines[-1]) + len(parts[0].strip()) < WIDTH:
            lines[-1] += f" {parts[0].strip()},"
        else:
            lines += [*parts[:-1], parts[-1] + ","]
        filling = len(parts) == 1
    return [*lines[:-1], lines[-1][:-1], indent + right]
