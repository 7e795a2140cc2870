"""How a run ended, in a line or two; and, on a terminal, a table of what its steps were estimated to take and took."""

from __future__ import annotations

from leftoff.cli.progress.times import took, whole
from leftoff.cli.render.layout import line_width, wrapped
from leftoff.cli.render.text import clean, step_name
from leftoff.engine.steps.approvals import ask_again, how
from leftoff.model.words import in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.progress.tally import Group, Tally
    from leftoff.cli.render.text import Line

    Event = dict[str, Any]

_LOOK = {
    "completed": ("✓", "good"),
    "failed": ("✗", "bad"),
    "blocked": ("■", "warn"),
    "paused": ("◌", "warn"),
}
_SHOWN = 6
MOST_ROWS = 30


def verdict(event: Event, tally: Tally, now: float) -> str:
    """What became of the run."""
    run = event.get("run") or {}
    status = run.get("status") or "over"
    steps = run.get("steps") or {}
    total = steps.get("total", tally.total)
    done = steps.get("completed", 0) + steps.get("skipped", 0) if steps else tally.done
    said = f"{clean(run.get('run_id') or tally.run_id)} {in_words(clean(status))}: "
    if done == total and status != "failed":
        said += (
            "nothing to do"
            if not total
            else "its step is done"
            if total == 1
            else f"all {total} steps are done"
        )
    else:
        said += f"{done} of {total} steps done"
    said += "".join(f", {steps[word]} {word}" for word in ("failed", "blocked", "waiting") if steps.get(word))
    return f"{said}, in {took(tally.elapsed(now))}"


def advice(event: Event, tally: Tally) -> list[tuple[str, str]]:
    """Commands that lead on, and what each is for; the most important first."""
    run = event.get("run") or {}
    run_id = run.get("run_id") or tally.run_id
    if run.get("status") == "completed":
        return []
    out, failed = [], (run.get("steps") or {}).get("failed", 0)
    rejected = event.get("rejected") or ()
    if (failed or run.get("status") == "failed") and event.get("logged", True):
        out.append((f"leftoff logs {run_id} --failed", "what the failed steps printed"))
    out += [(clean(ask_again(run_id, path)), "asks again") for path in rejected[:_SHOWN]]
    for path, asked in list(tally.waiting.items())[:_SHOWN]:
        what = (
            "the run is waiting for this decision"
            if asked.get("kind") == "approval"
            else "the run is waiting for this"
        )
        out.append((clean(command(run_id, path, asked)), what))
    goes_on = not rejected or failed > len(rejected) or tally.waiting
    return [*out, (f"leftoff resume {run_id}", "continues from here")] if goes_on else out


def command(run_id: str, path: str, asked: Event) -> str:
    """What ends the waiting of a step."""
    if asked.get("how"):
        return str(asked["how"])
    return how(run_id, path) if asked.get("kind") == "approval" else how(run_id, path, "step done --run")


def ending(event: Event, tally: Tally, now: float, columns: int) -> list[Line]:
    """For a terminal: what became of it, then one command per line, whole, so that it can be copied."""
    symbol, style = _LOOK.get((event.get("run") or {}).get("status", ""), ("–", "dim"))
    lines = wrapped([(f"{symbol} {verdict(event, tally, now)}", style)], columns)
    for do, why in advice(event, tally):
        line: Line = [("  ", ""), (do, "id"), (f"  {why}", "dim")]
        lines.append(line if line_width(line) <= columns else line[:2])
    return lines


# -- the table


def table(tally: Tally, columns: int) -> list[Line]:
    """The time of each step, against its estimate if it has one; nothing where that would say nothing."""
    groups = [group for group in tally.groups.values() if group.timed]
    estimated = [group for group in groups if group.leaf.estimate is not None]
    if not groups or (len(groups) < 2 and not estimated):
        return []
    from leftoff.cli.render.layout import Column
    from leftoff.cli.render.layout import table as laid_out

    heads = [
        Column("STEP", least=12),
        Column("ITEMS", rank=1, right=True),
        Column("ESTIMATED", right=True),
        Column("ACTUAL" if estimated else "TIME", right=True),
        Column("OFF BY", rank=2, right=True),
    ]
    shown = groups
    if len(groups) > MOST_ROWS:  # those that took longest say most
        longest = set(map(id, sorted(groups, key=lambda group: -group.seconds)[:MOST_ROWS]))
        shown = [group for group in groups if id(group) in longest]
    rows = [_row(group) for group in shown]
    if len(groups) > 1:
        rows.append(_total(groups, estimated))
    if not estimated:  # nothing to compare with
        heads, rows = heads[:2] + heads[3:4], [row[:2] + row[3:4] for row in rows]
    lines = laid_out(heads, rows, columns)
    if len(shown) < len(groups):
        lines.append([(f"… and {len(groups) - len(shown)} more that took less", "dim")])
    return lines


def _row(group: Group) -> list[Line]:
    each = group.leaf.estimate
    wanted = each * group.timed if each is not None else None
    items = f"{group.timed} × {took(group.seconds / group.timed)}" if group.timed > 1 else ""
    return [
        [(step_name(group.leaf.path), "")],
        [(items, "dim")],
        [(whole(wanted) if wanted is not None else "–", "dim" if wanted is None else "")],
        [(took(group.seconds), "")],
        _off(wanted, group.seconds),
    ]


def _total(groups: list[Group], estimated: list[Group]) -> list[Line]:
    """All of the work; the difference is that of the steps that have an estimate."""
    wanted = sum((group.leaf.estimate or 0) * group.timed for group in estimated)
    against = sum(group.seconds for group in estimated)
    return [
        [("all together", "title")],
        [],
        [(whole(wanted) if estimated else "–", "title" if estimated else "dim")],
        [(took(sum(group.seconds for group in groups)), "title")],
        _off(wanted, against) if estimated else [],
    ]


def _off(wanted: float | None, seconds: float) -> Line:
    if not wanted:
        return []
    off = (seconds - wanted) / wanted
    style = "good" if off <= 0 else "warn" if off <= 0.5 else "bad"
    return [(f"{off:+.0%}" if off < 10 else f"×{seconds / wanted:.0f}", style)]
