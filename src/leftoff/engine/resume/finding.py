"""What one check says of the world, and what all of them together allow."""

from __future__ import annotations

from dataclasses import dataclass

from leftoff.errors import CannotResume, Invalid, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

BRING_BACK = "bring the copy back"  # of an output that is gone
STOP = "stop"
WAITING = "approval.waiting"  # a person is to choose, or whoever goes on does
UNAPPROVED = "approval.missing"  # a phase of a protocol that only a person approves
RESUME, WARN, ASK, REFUSE = "resume", "warn", "ask", "refuse"
LEVELS = (RESUME, WARN, ASK, REFUSE)

# Every code, and how bad it is unless a project says otherwise.
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
    "mirror.deleted": ASK,
    "outputs.missing": ASK,
    "outputs.changed": ASK,
    "files.changed": ASK,
    "files.half_restored": ASK,
    "git.branch_gone": REFUSE,
    "git.branch_other": ASK,
    "git.head_moved": WARN,
    "git.dirty": WARN,
    "definition.changed": ASK,
    "definition.untrusted": ASK,
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
_SHOWN = 3
# `--yes` does not answer these
NEVER_YES = (
    "integrity.salvaged",
    "step.not_idempotent",
    "step.elsewhere",
    "step.waiting",
    UNAPPROVED,
    "variables.redacted",
    "definition.untrusted",
)


def is_fixed(code: str) -> bool:
    """Whether its level is not for a project to change."""
    return code.startswith(("integrity.", "lease.")) or code == "definition.untrusted"


def check_codes(codes: Iterable[str]) -> tuple[str, ...]:
    """Codes that somebody accepts: each must be one, and one that can be accepted."""
    given = tuple(codes)
    for code in given:
        if code not in CODES:
            from difflib import get_close_matches

            near = get_close_matches(code, CODES, 1)
            hint = f"Did you mean {near[0]}?" if near else f"Codes: {', '.join(CODES)}."
            raise Usage(f"There is no finding {code!r} to accept.", hint=hint)
        if CODES[code] == REFUSE and is_fixed(code):
            raise Usage(
                f"{code} cannot be accepted: it is a refusal.",
                hint="`leftoff verify RUN` says what to do about it.",
            )
    return given


@dataclass
class Finding:
    """One thing that was found. ``choices``: what a person may answer; ``diff``: where one helps; ``paths``: files.

    ``level``: that of its code, unless a check says otherwise. ``clears``: collection and key of the record that is
    dropped once it was accepted. ``digest``: of the definition that an answer is about, and no other.
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

    def __post_init__(self) -> None:
        self.level = self.level or CODES[self.code]

    @property
    def asked(self) -> tuple[str, str | None, str, str]:
        """What somebody is asked by it: of one subject several things may be said."""
        return self.code, self.subject, self.message, self.digest

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "level": self.level,
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "subject": self.subject,
        }
        if self.diff is not None:
            found["diff"] = self.diff
        if self.paths:
            found["paths"] = list(self.paths)
        if self.choices:
            found["choices"] = list(self.choices)
        if self.digest:
            found["digest"] = self.digest
        return found

    def __repr__(self) -> str:
        return f"<{self.level} {self.code}: {self.message}>"


def worst(findings: Iterable[Finding]) -> str:
    return max((finding.level for finding in findings), key=LEVELS.index, default=RESUME)


def stop_at(findings: Iterable[Finding], hint: str) -> None:
    """`CannotResume`, where something refuses or needs a person. ``hint``: how ``{codes}`` are accepted."""
    found = list(findings)
    refused = [finding for finding in found if finding.level == REFUSE]
    stops = refused or [finding for finding in found if finding.level == ASK]
    if not stops:
        return
    told = " ".join(finding.message for finding in stops[:_SHOWN])
    more = f" And {len(stops) - _SHOWN} more." if len(stops) > _SHOWN else ""
    codes = sorted({finding.code for finding in stops})
    what = stops[0].hint if refused else hint.format(codes=codes)
    raise CannotResume(f"{told}{more}", findings=stops, hint=what)


def exit_code(findings: Iterable[Finding]) -> int:
    """What a command ends with: corrupt before held before refused; then a question; else all is well."""
    found = list(findings)
    refused = [finding.code for finding in found if finding.level == REFUSE]
    if any(code.startswith("integrity.") for code in refused):
        return 4
    if "lease.held" in refused:
        return 5
    if refused:
        return 6
    return 7 if any(finding.level == ASK for finding in found) else 0


def levels_of(section: Mapping[str, Any]) -> dict[str, str]:
    """The levels that a project sets, checked. ``section`` is `[verify]` as it is written."""
    given = section.get("levels", {})
    if not isinstance(given, dict):
        raise Invalid(
            "[verify] levels must be a table.", path="levels", hint='[verify.levels]\n"git.dirty" = "ask"'
        )
    out = {}
    for code, level in _flat(given).items():
        if code not in CODES:
            from difflib import get_close_matches

            near = get_close_matches(code, CODES, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Codes: {', '.join(CODES)}."
            raise Invalid(f"[verify.levels] has no code {code!r}.", path=f"levels.{code}", hint=hint)
        if is_fixed(code):
            raise Invalid(
                f"The level of {code} cannot be changed.",
                path=f"levels.{code}",
                hint="Remove it from [verify.levels].",
            )
        if level not in LEVELS:
            raise Invalid(
                f"[verify.levels] {code}: there is no level {level!r}.",
                path=f"levels.{code}",
                hint=f"Levels: {', '.join(LEVELS)}.",
            )
        out[code] = level
    return out


def _flat(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """``git.dirty = "ask"`` in TOML is a table in a table; quoted, it is one key."""
    out: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{above}{key}"
        out.update(_flat(value, f"{name}.") if isinstance(value, dict) else {name: value})
    return out


def levelled(finding: Finding, levels: Mapping[str, str]) -> Finding:
    """With the level that the project gives it. What a check has softened itself stays softer."""
    wanted = levels.get(finding.code)
    if wanted is not None and finding.level == CODES[finding.code]:
        finding.level = wanted
    return finding
