"""``leftoff get``: one value, bare, for scripts."""

from __future__ import annotations

from leftoff.cli.options import CURRENT, Spec
from leftoff.errors import NotFound, Redacted
from leftoff.model.words import COLLECTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.cli.options import Args
    from leftoff.engine.read.state import Value
    from leftoff.store.base import View

SPEC = Spec(
    "get",
    "Print a variable of the current run: text as it is, anything else as JSON. Without K, all of them as one object.\n"
    "COLLECTION/KEY is any other record, and REF the run or version to read it from.",
    usage="[K | COLLECTION/KEY [REF]]",
    most=2,
    options=CURRENT,
    examples="""  leftoff get title
  leftoff get step/convert
  leftoff get knowledge/KE-1 @~2
  leftoff get --json pages""",
)


def run(args: Args, ctx: Context) -> int:
    if not args.rest:
        ctx.emit(_read(ctx, None, lambda reader: reader.plain("variable")))
        return 0
    name = args.rest[0]
    collection, key = _address(name)
    value = _read(
        ctx, args.rest[1] if len(args.rest) > 1 else None, lambda reader: _one(reader, collection, key)
    )
    if args.json or not isinstance(_plain(value, name), str):
        ctx.emit(value.plain)
    else:
        ctx.out(value.plain)
    return 0


def _address(name: str) -> tuple[str, str]:
    """``COLLECTION/KEY``; a name that starts with no collection is a variable's."""
    collection, _, key = name.partition("/")
    return (collection, key) if key and collection in COLLECTIONS else ("variable", name)


def _plain(value: Value, name: str) -> Any:
    """The value, unless all of it was redacted: a script must not take the mark for the secret."""
    if [] in value.holes:
        raise Redacted(
            name, hint="Secrets are not stored. Read it from where it is kept, or allow it in leftoff.toml."
        )
    return value.plain


def _read(ctx: Context, ref: str | None, read: Any) -> Any:
    from leftoff.engine.read.find import resolve_in
    from leftoff.engine.read.state import Reader
    from leftoff.engine.write.report import need_store
    from leftoff.model.ids import parse_ref

    def look(view: View) -> Any:
        if ref is None:
            row = ctx.current_in(view)
            return read(Reader(ctx.store, view, row.run, row.run_id))
        target = resolve_in(view, parse_ref(ref), ctx.current_in)
        seq = target.version.seq if target.version is not None else None
        return read(Reader(ctx.store, view, target.row.run, target.row.run_id, seq))

    need_store(ctx.store)
    return ctx.store.read(look)


def _one(reader: Any, collection: str, key: str) -> Value:
    value: Value | None = reader.value(collection, key)
    if value is not None:
        return value
    from difflib import get_close_matches

    known = list(reader.raw(collection))
    near = get_close_matches(key, known, 3, 0.5)
    what = "variable" if collection == "variable" else f"{collection} record"
    hint = (
        f"Did you mean {', '.join(near)}?"
        if near
        else f"It has {_some(known) if known else f'no {what} at all'}."
    )
    raise NotFound(f"The run has no {what} {key}.", hint=hint)


def _some(names: list[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
