"""``leftoff log``: a run's checkpoints, newest first; on a terminal with the lines that rollbacks and forks make."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Opt, Spec
from leftoff.cli.render.text import clean, columns, crop, pad, step_name, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.cli.render.screen import Screen
    from leftoff.cli.render.text import Line
    from leftoff.model.versions import Version
    from leftoff.operations.checkpoints import History

SPEC = Spec(
    "log",
    "List a run's checkpoints, newest first. Given a version (RUN@SEQ, RUN~N), start from there.",
    usage="[RUN]",
    most=1,
    options=(Opt("-n", "N", "only the newest N"), *CURRENT),
    examples="""  leftoff log             of the current run
  leftoff log -n 5        its newest five
  leftoff log latest      of the run with the latest news
  leftoff log --json      for a program""",
)

NARROW = 64  # columns: below, a checkpoint takes two lines
_LOOKS = {"error": "bad", "rollback": "graph", "step_complete": "good"}


def run(args: Args, ctx: Context) -> int:
    from leftoff.cli.verbs.ls import whole
    from leftoff.operations.checkpoints import history

    most = whole("-n", args.n) if args.n is not None else None
    return show_log(history(ctx.project, ctx.caller, args.rest[0] if args.rest else None, most), ctx)


def show_logs(found: list[History], ctx: Context) -> int:
    """What `resume --list` shows: of several runs, each below its name."""
    if len(found) == 1:
        return show_log(found[0], ctx)
    if ctx.args.json:
        ctx.emit({"checkpoints": [each for run in found for each in run.to_json()["checkpoints"]]})
        return 0
    screen, lines = ctx.screen(), []
    for run in found:
        number = len(run.versions)
        lines.append([(f"{run.target.row.run_id}: {number} checkpoint{'' if number == 1 else 's'}", "")])
        lines += (graph(run, screen) if screen.fancy else bare(run.versions, screen)) if run.versions else []
    screen.page(lines)
    return 0


def show_log(found: History, ctx: Context) -> int:
    if ctx.args.json:
        return ctx.answer(found)
    if not found.versions:
        ctx.say(f"Run {found.target.row.run_id} has no checkpoints yet. `leftoff save` saves one.")
        return 0
    screen = ctx.screen()
    screen.page(graph(found, screen) if screen.fancy else bare(found.versions, screen))
    return 0


def bare(versions: list[Version], screen: Screen) -> list[Line]:
    rows = [
        (
            str(version.id),
            f"@{version.seq}",
            clean(str(version.trigger)),
            step_name(version.step or "-"),
            screen.when(version.at),
            _note(version),
        )
        for version in versions
    ]
    return [[(line, "")] for line in columns(rows)]


def graph(found: History, screen: Screen) -> list[Line]:
    row, versions = found.target.row, found.versions
    lines: list[Line] = []
    if found.target.version is None and row.seq > versions[0].seq:
        lines.append([("○ ", "dim"), (f"@{row.seq}", "dim"), ("  not saved yet", "dim")])
    lanes = Lanes(found)
    wide = max(len(str(version.seq)) for version in versions) + 1
    triggers = max(width(_why(version)) for version in versions)
    for version in versions:
        lines += lanes.lines(version, lambda mark, v=version: _told(v, mark, screen, wide, triggers))
    if row.card.get("parent"):
        lines.append([("╰ ", "graph"), (f"forked from {clean(str(row.card['parent']))}", "dim")])
    return lines


class Lanes:
    """The lines of a graph, drawn from the newest checkpoint down: each lane waits for the checkpoint it goes on to."""

    def __init__(self, found: History) -> None:
        self._parents = found.parents()
        self._forks = found.forks()
        self._waiting: list[int | None] = []

    def lines(self, version: Version, told: Any) -> list[Line]:
        """What is drawn for one checkpoint; ``told`` gives its text, line by line, for a graph of some width."""
        out: list[Line] = []
        here = [i for i, seq in enumerate(self._waiting) if seq == version.seq]
        if len(here) > 1:
            out.append([(self._joined(here), "graph")])
        lane = here[0] if here else self._open(version.seq)
        symbol = "↺" if version.trigger == "rollback" else "●"
        mark = self._row({lane: symbol})
        self._waiting[lane] = self._parents[version.seq]
        self._trim()
        for number, text in enumerate(told(width(mark))):
            out.append([(mark if number == 0 else pad(self._row({}), width(mark)), "graph"), *text])
        for fork in self._forks.get(version.seq, []):
            branch = self._row({lane: "├"}).rstrip() + "─▸ "
            out.append(
                [
                    (branch, "graph"),
                    (fork.run_id, "id"),
                    (f"  fork on {clean(fork.branch)}, {fork.status}", "dim"),
                ]
            )
        return out

    def _open(self, seq: int) -> int:
        """A lane for a checkpoint that nothing shown so far follows."""
        if None in self._waiting:
            lane = self._waiting.index(None)
            self._waiting[lane] = seq
            return lane
        self._waiting.append(seq)
        return len(self._waiting) - 1

    def _row(self, marks: dict[int, str]) -> str:
        lanes = max(len(self._waiting), max(marks, default=-1) + 1)
        waiting = [*self._waiting, *[None] * (lanes - len(self._waiting))]
        return "".join(
            f"{marks.get(i) or ('│' if seq is not None else ' ')} " for i, seq in enumerate(waiting)
        )

    def _joined(self, here: list[int]) -> str:
        """Several lanes come together in the first of them."""
        first, last = here[0], here[-1]
        out = ""
        for i, seq in enumerate(self._waiting):
            if i == first:
                out += "├─"
            elif i in here:
                out += "╯ " if i == last else "┴─"
            elif first < i < last:
                out += "┼─" if seq is not None else "──"
            else:
                out += "│ " if seq is not None else "  "
        for i in here[1:]:
            self._waiting[i] = None
        self._trim()
        return out

    def _trim(self) -> None:
        while self._waiting and self._waiting[-1] is None:
            self._waiting.pop()


def _why(version: Version) -> str:
    return clean(str(version.trigger)) + (f" {step_name(version.step)}" if version.step else "")


def _note(version: Version) -> str:
    """What was noted, behind the other names that the checkpoint can be given by."""
    return " ".join(clean(part) for part in (*version.aliases, version.note or "") if part)


def _told(version: Version, drawn: int, screen: Screen, wide: int, triggers: int) -> list[Line]:
    """One checkpoint: on one line, or on two where the terminal is narrow."""
    room = screen.columns - drawn
    when, note = screen.when(version.at), _note(version)
    seq = (pad(f"@{version.seq}", wide), "id")
    if screen.columns < NARROW:
        below = f"{_why(version)}{f': {note}' if note else ''}"
        return [
            [seq, (f" {version.id}", "dim")],
            [(crop(below, room), "")],
            [(crop(when, room), "dim")],
        ]
    why = pad(crop(_why(version), min(triggers, room // 3)), min(triggers, room // 3))
    left = room - wide - width(why) - width(when) - 20
    text = pad(crop(note, left), left) if left > 3 else ""
    return [
        [
            seq,
            (f"  {version.id}  ", "dim"),
            (why, _LOOKS.get(str(version.trigger), "")),
            (f"  {text}  ", ""),
            (when, "dim"),
        ]
    ]
