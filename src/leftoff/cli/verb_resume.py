"""``leftoff resume`` (``continue``, ``reprendre``): go on with a run, from where it is or from further back."""

from __future__ import annotations

import os

from leftoff.cli.ask import can_ask, confirm
from leftoff.cli.given import asked, assignments, positive, step_path
from leftoff.cli.options import Opt, Spec
from leftoff.cli.text import clean, clean_lines
from leftoff.errors import Ambiguous, CannotResume, NoCheckpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.engine.find import Target
    from leftoff.engine.pickup import Way
    from leftoff.store.base import View
    from leftoff.store.rows import RunRow

SPEC = Spec(
    "resume",
    "Go on with a run. One of a workflow file is executed to its end: what still runs is followed, what ended\n"
    "meanwhile is taken in, the rest is done. Any other is marked running, and the brief is printed.\n"
    "Without REF, the latest unfinished run of the branch. With an older version it goes back to it in place; the\n"
    "history is kept. Where finished steps would run again, it asks first. `continue` and `reprendre` are the same.",
    usage="[REF]",
    most=1,
    options=(
        Opt(
            "--checkpoint",
            "ID",
            "go back to this checkpoint (an id, the start of one, or a protocol's own id)",
        ),
        Opt("--from-step", "STEP", "this step and every later one are to be done again"),
        Opt("--yes", None, "answer its questions with yes"),
        Opt("--accept", "CODE", "go on in spite of this finding", many=True),
        Opt("--restart", None, "end what still runs of its steps instead of following it"),
        Opt("--max-parallel", "N", "how many steps run at once"),
        Opt("--list", None, "only list the checkpoints to resume from"),
        Opt("--var", "K=V", "set a variable, as for `leftoff set`", many=True),
        Opt("--run", "RUN", "the run that is meant, like REF"),
        Opt("--branch", "B", "the branch to look for it on (default: LEFTOFF_BRANCH, main)", filled=True),
    ),
    examples="""  leftoff resume                          the latest unfinished run of this branch
  leftoff resume --list                   what there is to go back to
  leftoff resume @~1                      one checkpoint back
  leftoff resume --from-step test --yes   test and everything after it again""",
)

_SHOWN = 6


def run(args: Args, ctx: Context) -> int:
    from leftoff.engine.definition import definition_of
    from leftoff.engine.pickup import Way, driver_of, run_again

    positive(args.max_parallel, "--max-parallel")
    target = find(args, ctx)
    if args.list:
        from leftoff.cli.verb_log import show_log

        return show_log(target, args, ctx)
    if target.row.status in ("completed", "abandoned") and target.version is None and args.from_step is None:
        return finished(target, ctx)
    older = target.version is not None and target.version.seq != target.row.seq
    way = Way(target.seq if older else None, _step(args), assignments(args.var))
    lease = driver_of(ctx.store, target, ctx.now, session())
    again = run_again(ctx.store, target, way)
    driven = definition_of(ctx.store, target.row) is not None
    if can_ask(ctx) and not args.yes and not driven:
        choice = _prompt(target, way, again, ctx)
        if choice != "resume":
            return _other(choice, target, ctx)
    if not _agreed(target, again, lease, ctx):
        ctx.say("Nothing was changed.")
        return 0
    return _drive(target, way, args, ctx) if driven else go_on(target, way, ctx)


def _drive(target: Target, way: Way, args: Args, ctx: Context) -> int:
    """A run of a workflow file: back to where it shall go on from, then on to its end."""
    from leftoff.cli import execute

    return execute.go_on(
        ctx,
        target.row,
        way.variables,
        accept=tuple(args.accept),
        take_over=True,
        rewind=(lambda: _rewind(target, ctx)) if way.seq is not None else None,
        again=way.step,
    )


def _rewind(target: Target, ctx: Context) -> None:
    """Back to an older version; what runs of a later one is ended."""
    from leftoff.cli.drive import attempts_folder
    from leftoff.engine.pickup import Way, pick_up
    from leftoff.workflow.stop import end_attempts

    end_attempts(ctx.store, target.row, attempts_folder(ctx), ctx.settings.run.grace)
    pick_up(ctx.store, target, Way(target.seq), ctx.now, scrubber=ctx.redactor, session=session())


def session() -> str | None:
    return os.environ.get("LEFTOFF_SESSION") or None


def _step(args: Args) -> str | None:
    return step_path(args.from_step) if args.from_step is not None else None


def find(args: Args, ctx: Context) -> Target:
    """The run and version that is meant; which of several is taken is said."""
    from leftoff.engine.find import Target, resolve
    from leftoff.engine.report import need_store

    named = args.rest[0] if args.rest else None
    if args.checkpoint is not None:
        if named is not None or args.run:
            base = ctx.target(named or args.run).row.run_id
            return ctx.target(f"{base}@{args.checkpoint}")
        target = ctx.target(args.checkpoint)
        if target.version is None:
            raise NoCheckpoint(f"There is no checkpoint {args.checkpoint}.")
        return target
    if named is not None:
        return resolve(ctx.store, named, lambda view: latest(view, ctx))
    need_store(ctx.store)
    return Target(ctx.store.read(lambda view: latest(view, ctx)), None)


def latest(view: View, ctx: Context) -> RunRow:
    """The current run, and where there are several the latest, which is said."""
    try:
        return ctx.current_in(view)
    except Ambiguous as error:
        if getattr(ctx.args, "run", None) or os.environ.get("LEFTOFF_RUN"):
            raise
        row = ctx.current_in(view, latest=True)
        others = [name for name in error.candidates if name != row.run_id]
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        ctx.say(
            f"leftoff: branch {clean(row.branch)} has {len(others) + 1} unfinished runs; taking the latest, "
            f"{row.run_id}.\nThe others: {', '.join(others[:_SHOWN])}{more}."
        )
        return row


def finished(target: Target, ctx: Context) -> int:
    """A completed run has nothing left. An abandoned one was given up; going on with it must be meant."""
    row = target.row
    if row.status == "abandoned":
        raise CannotResume(
            f"Run {row.run_id} is abandoned.",
            hint=f"`leftoff log {row.run_id}` lists its checkpoints, `leftoff resume RUN@SEQ` goes back to one; "
            f"`leftoff fork {row.run_id}` goes on in a run of its own.",
        )
    if ctx.args.json:
        _emit(target, "", ctx)
        return 0
    unmet = _unmet(target, ctx)
    ctx.out(f"Run {row.run_id} is completed: nothing is left to do.")
    if unmet:
        steps = ", ".join(clean(path) for path in _steps(target, ctx)) or "none"
        ctx.out(
            f"Not met: {', '.join(map(clean, unmet))}.\n"
            f"`leftoff resume {row.run_id} --from-step STEP` does a step and the later ones again. Steps: {steps}."
        )
    return 0


def _unmet(target: Target, ctx: Context) -> list[str]:
    from leftoff.engine.state import read

    values = read(ctx.store, target.row.run, target.row.run_id, "criterion")
    return [
        key
        for key, value in values.items()
        if value.plain is False or (isinstance(value.plain, dict) and value.plain.get("met") is False)
    ]


def _steps(target: Target, ctx: Context) -> list[str]:
    from leftoff.engine.show import in_order
    from leftoff.engine.state import read

    values = read(ctx.store, target.row.run, target.row.run_id, "step")
    return in_order({path: value.plain for path, value in values.items()})


def _prompt(target: Target, way: Way, again: list[str], ctx: Context) -> str:
    from leftoff.cli.prompt import ask, continuing
    from leftoff.engine.show import document

    found = document(ctx.store, target, ctx.now, ctx.limits)
    if way.step is not None:
        going = f"Do {clean(way.step)} and every later step again"
    elif way.seq is not None:
        going = f"Go back to version {way.seq}, then {continuing(found).lower()}"
    else:
        going = continuing(found)
    return ask(ctx, target, found, going)


def _agreed(target: Target, again: list[str], lease: Any, ctx: Context) -> bool:
    """Whether nothing needs asking, or the answer is yes."""
    if lease is not None and lease.kind == "process":
        from leftoff.engine.lease import describe, state

        if state(lease, ctx.now) == "silent":
            who = f"Run {target.row.run_id} was driven by {describe(lease)}, and cannot be seen from here."
            if not confirm(ctx, who, hint="--yes takes it over."):
                return False
    if not again:
        return True
    names = ", ".join(clean(path) for path in again[:_SHOWN])
    more = f" and {len(again) - _SHOWN} more" if len(again) > _SHOWN else ""
    number = f"{len(again)} finished step{'s' if len(again) > 1 else ''}"
    return confirm(ctx, f"{number} would run again: {names}{more}.", hint="--yes goes back all the same.")


def _other(choice: str, target: Target, ctx: Context) -> int:
    """The choices that do not resume."""
    if choice == "delete":
        from leftoff.cli.verb_rm import remove_run

        return remove_run(target, ctx)
    from leftoff.engine.find import Target
    from leftoff.engine.pickup import start_fresh

    run = start_fresh(ctx.store, target, ctx.now, scrubber=ctx.redactor, session=session())
    row = ctx.store.read(lambda view: view.run_row(run))
    assert row is not None
    ctx.say(f"leftoff: {target.row.run_id} is abandoned; {row.run_id} starts afresh.")
    return _tell(Target(row, None), ctx)


def go_on(target: Target, way: Way, ctx: Context) -> int:
    from leftoff.engine.find import Target
    from leftoff.engine.pickup import pick_up

    given = asked(
        lambda: pick_up(
            ctx.store, target, way, ctx.now, scrubber=ctx.redactor, session=session(), guard=ctx.guard()
        )
    )
    ctx.say_redacted(given)
    return _tell(Target(target.row, None), ctx)


def _tell(target: Target, ctx: Context) -> int:
    from leftoff.engine.brief import brief

    text = brief(ctx.store, target, ctx.now, ctx.project)
    if ctx.args.json:
        _emit(target, text, ctx)
    else:
        ctx.out(clean_lines(text))
    return 0


def _emit(target: Target, text: str, ctx: Context) -> None:
    """The last event, which is also the run."""
    run = ctx.info(target.row).to_json()
    ctx.emit({**run, "event": "end", "run": run, "brief": text})
