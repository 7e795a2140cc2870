"""Findings: what a check reports about the world, their codes and levels, and what several of them mean together.

The worst level is the verdict: ``resume`` continues, ``warn`` continues and prints why, ``ask`` needs a person,
``refuse`` cannot continue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from leftoff.errors import Invalid, NeedsPerson, Usage

BRING_BACK = "bring the copy back"  # of an output that is gone
STOP = "stop"
WAITING = "approval.waiting"  # a person is to choose, or the agent that continues does
UNAPPROVED = "approval.missing"  # a phase of a protocol that only a person approves
UNTRUSTED = "definition.untrusted"
RESUME, WARN, ASK, REFUSE = "resume", "warn", "ask", "refuse"
LEVELS = (RESUME, WARN, ASK, REFUSE)

# Every code, with its level unless a project sets another.
CODES: dict[str, str] = {
    "integrity.digest": REFUSE,
    "integrity.record": REFUSE,
    "integrity.blob": REFUSE,
    "integrity.fields": REFUSE,
    "integrity.incomplete_write": ASK,
    "integrity.salvaged": ASK,
    "recovery.not_resumable": REFUSE,
    "time.future": ASK,
    "time.order": ASK,
    "age.stale": ASK,
    "progress.illegal": ASK,
    WAITING: ASK,
    UNAPPROVED: ASK,
    "sync.deleted": ASK,
    "outputs.missing": ASK,
    "outputs.changed": ASK,
    "files.changed": ASK,
    "files.half_restored": ASK,
    "git.branch_gone": REFUSE,
    "git.branch_other": ASK,
    "git.head_moved": WARN,
    "git.dirty": WARN,
    "definition.changed": ASK,
    UNTRUSTED: ASK,
    "issue.labels": WARN,
    "issue.body": ASK,
    "issue.closed": ASK,
    "issue.offline": WARN,
    "lease.held": REFUSE,
    "lease.silent": ASK,
    "criteria.unmet": WARN,
    "prerequisite.missing": ASK,
    "variables.redacted": ASK,
    "result.redacted": WARN,
    "step.not_idempotent": ASK,
    "step.elsewhere": ASK,
    "step.again": ASK,
    "step.waiting": ASK,
    "step.rejected": WARN,
    "blocked.errors": ASK,
}
# `--yes` does not answer these
NEVER_YES = (
    "integrity.salvaged",
    "step.not_idempotent",
    "step.elsewhere",
    "step.waiting",
    UNAPPROVED,
    "variables.redacted",
    UNTRUSTED,
)


@dataclass(eq=False)
class Finding:
    """One thing that a check found.

    ``level``: that of its code, unless a check sets another. ``choices``: what a person may answer. ``paths``: files.
    ``clears``: collection and key of the record that is dropped once it was accepted. ``digest``: of the definition
    that an answer is about. ``secrets``: the names of values that were not stored, and that a person can type.
    """

    code: str
    message: str
    hint: str = ""
    subject: str | None = None
    level: str = ""
    diff: str | None = None
    choices: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    clears: tuple[str, ...] = ()
    digest: str = ""
    secrets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.level = self.level or CODES[self.code]

    @property
    def asked(self) -> tuple[str, str | None, str, str]:
        """What identifies the question: several things may be found about one subject."""
        return self.code, self.subject, self.message, self.digest

    def set_level(self, levels: Mapping[str, str]) -> None:
        """Take the level that the project sets. A level that a check has set itself stays."""
        if self.level == CODES[self.code]:
            self.level = levels.get(self.code, self.level)

    def to_json(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in ("level", "code", "message", "hint", "subject")}
        if self.diff is not None:
            found["diff"] = self.diff
        for name in ("paths", "choices"):
            if getattr(self, name):
                found[name] = list(getattr(self, name))
        if self.digest:
            found["digest"] = self.digest
        return found


def some(words: list[str], most: int = 5, between: str = "; ") -> str:
    """Return the first few of a list in one line, and how many more there are."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return between.join(words[:most]) + more


def exit_code(findings: Iterable[Finding]) -> int:
    """Return the exit code for findings: corrupt before held before refused, then a question."""
    levels = {finding.level for finding in findings}
    refused = [finding.code for finding in findings if finding.level == REFUSE]
    if any(code.startswith("integrity.") for code in refused):
        return 4
    if refused:
        return 5 if "lease.held" in refused else 6
    return 7 if ASK in levels else 0


OLD_CODES = {"mirror.deleted": "sync.deleted"}  # names that findings had before


def is_fixed(code: str) -> bool:
    """Return whether a project cannot change the level of this code."""
    return code.startswith(("integrity.", "lease.")) or code == UNTRUSTED


def check_codes(codes: Iterable[str]) -> tuple[str, ...]:
    """Return the codes that a user accepts. Raise `Usage` for one that does not exist or cannot be accepted."""
    given = tuple(OLD_CODES.get(code, code) for code in codes)
    for code in given:
        if code not in CODES:
            raise Usage(f"There is no finding {code!r} to accept.", hint=_did_you_mean(code, "{}"))
        if CODES[code] == REFUSE and is_fixed(code):
            raise Usage(
                f"{code} cannot be accepted: it is a refusal.",
                hint="`leftoff verify RUN` says what to do about it.",
            )
    return given


def check_by_proxy(codes: Iterable[str], run_id: str) -> None:
    """Raise if an agent accepts a code that only a person can accept."""
    for code in check_codes(codes):
        if code in NEVER_YES:
            raise NeedsPerson(
                f"{code} cannot be accepted here.",
                hint=f"A person decides it, in a shell: leftoff resume {run_id}",
            )


def _did_you_mean(code: str, quoted: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(code, CODES, 1)
    return f"Did you mean {quoted.format(near[0])}?" if near else f"Codes: {', '.join(CODES)}."


def levels_of(section: Mapping[str, Any]) -> dict[str, str]:
    """Return the levels that a project sets. ``section`` is `[verify]` as it is written."""
    given = section.get("levels", {})
    if not isinstance(given, dict):
        raise Invalid(
            "[verify] levels must be a table.", path="levels", hint='[verify.levels]\n"git.dirty" = "ask"'
        )
    out = {}
    for code, level in _flat(given).items():
        path, code = f"levels.{code}", OLD_CODES.get(code, code)
        if code not in CODES:
            hint = _did_you_mean(code, "{!r}")
            raise Invalid(f"[verify.levels] has no code {code!r}.", path=path, hint=hint)
        if is_fixed(code):
            wrong = f"The level of {code} cannot be changed."
            raise Invalid(wrong, path=path, hint="Remove it from [verify.levels].")
        if level not in LEVELS:
            wrong = f"[verify.levels] {code}: there is no level {level!r}."
            raise Invalid(wrong, path=path, hint=f"Levels: {', '.join(LEVELS)}.")
        out[code] = level
    return out


def _flat(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Flatten tables: ``git.dirty = "ask"`` in TOML is a table in a table; quoted, it is one key."""
    out: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{above}{key}"
        out.update(_flat(value, f"{name}.") if isinstance(value, dict) else {name: value})
    return out
