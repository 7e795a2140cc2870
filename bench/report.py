"""Rows as text for people and as one JSON document for machines."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass, field

from bench.registry import Case, Row


@dataclass
class Outcome:
    """What a case gave: its rows so far, how long it took, and the error that ended it early."""

    case: Case
    rows: list[Row] = field(default_factory=list)
    seconds: float = 0.0
    error: str | None = None


def row_text(row: Row) -> str:
    """One line for the figure, one for what it was made of."""
    figure = f"{row.value:.3g}" if abs(row.value) < 1000 else f"{row.value:.0f}"
    unit = row.unit if row.unit == "x" else f" {row.unit}"
    line = f"  {row.state:<6}{figure + unit:>12}   target {row.target:<18} {row.label}"
    raw = "  ".join(f"{key}={val}" for key, val in row.raw.items())
    return f"{line}\n{'':21}{raw}" if raw else line


def outcome_text(outcome: Outcome) -> str:
    """A case with its rows; a failure is shouted, with the whole traceback."""
    lines = [f"{outcome.case.name}: {outcome.case.title} ({outcome.seconds:.1f} s)"]
    lines += [row_text(row) for row in outcome.rows]
    if outcome.error is not None:
        lines.append(f"  FAILED\n{outcome.error.rstrip()}")
    return "\n".join(lines)


def summary(outcomes: list[Outcome]) -> str:
    """How many figures met their target, fell short, or could not be taken at all."""
    states = [row.state for outcome in outcomes for row in outcome.rows]
    failed = [outcome.case.name for outcome in outcomes if outcome.error is not None]
    text = f"{states.count('ok')} ok, {states.count('short')} short, {len(failed)} cases failed"
    return f"{text}: {', '.join(failed)}" if failed else text


def document(outcomes: list[Outcome], facts: dict[str, object]) -> str:
    """Everything, as one JSON document."""
    cases = [
        {
            "case": outcome.case.name,
            "title": outcome.case.title,
            "seconds": round(outcome.seconds, 1),
            "error": outcome.error,
            "rows": [_row(row) for row in outcome.rows],
        }
        for outcome in outcomes
    ]
    return json.dumps(
        {"python": platform.python_version(), **facts, "cases": cases, "summary": summary(outcomes)},
        indent=2,
        ensure_ascii=False,
    )


def _row(row: Row) -> dict[str, object]:
    return {
        "label": row.label,
        "value": row.value,
        "unit": row.unit,
        "at_least": row.at_least,
        "at_most": row.at_most,
        "aim": row.aim,
        "state": row.state,
        "raw": row.raw,
    }
