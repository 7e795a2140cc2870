"""Values in the environment of a step, and what its scripts do with them: the same rules as for values in a script."""

from __future__ import annotations

from functools import lru_cache

from leftoff.errors import BadTemplate
from leftoff.workflow.template.names import expressions
from leftoff.workflow.template.shell_commands import AS_FILE
from leftoff.workflow.template.shell_frames import QuoteError
from leftoff.workflow.template.shell_parts import NAME
from leftoff.workflow.template.shell_quote import Script, Value, graph_of
from leftoff.workflow.template.shell_reach import Reach, Reaches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from leftoff.workflow.template.names import Expression
    from leftoff.workflow.template.shell_flow import Graph

_EXPANDED = ("BASH_ENV", "PS4")  # by bash, whatever its script says


def marked(text: str) -> tuple[str, str, list[Expression]]:
    """A script with a mark at each of its values, the mark, and the values; those with ``| raw`` are none."""
    mark = next(chr(code) for code in range(0xE000, 0xF8FF) if chr(code) not in text)
    values: list[Expression] = []
    pieces, at = [], 0
    for expression in expressions(text):
        pieces.append(text[at : expression.start])
        at = expression.end
        if not expression.block and last_filter(expression) != "raw":
            values.append(expression)
            pieces.append(mark)
    return "".join([*pieces, text[at:]]), mark, values


def last_filter(expression: Expression) -> str:
    last = [word.text for word in expression.words[-2:]]
    return last[1] if last[:1] == ["|"] else ""


def is_filled(text: str) -> bool:
    """Whether there are values in it; one with ``| raw`` is the author's word."""
    return any(not found.block and last_filter(found) != "raw" for found in expressions(text))


def check_environment(
    scripts: Sequence[str], given: Mapping[str, str], where: str, *, ksh: bool = False
) -> None:
    """``BadTemplate`` where a value for the environment gets to a place where a shell evaluates it."""
    values = {name: Value(text) for name, text in given.items()}
    for found in evaluated_there(scripts, values, ksh=ksh):
        raise BadTemplate(f"{where}: env: {found.message}", hint=found.hint)


def evaluated_there(scripts: Sequence[str], values: Mapping[str, Value], *, ksh: bool) -> Iterator[Reaches]:
    """The values that one of the scripts evaluates."""
    held = {(NAME, "", name): value for name, value in values.items() if not value.is_number}
    for node, value in held.items():
        if node[2] in _EXPANDED and not value.plain:
            yield Reaches(node, f"a value for ${node[2]}, which the shell expands", AS_FILE, "plain word")
    for script in scripts if held else ():
        if any(name in script for name in values):
            yield from Reach(script, _graph(script, ksh), held).found()


@lru_cache(maxsize=64)
def _graph(text: str, ksh: bool) -> Graph:
    script, mark, values = marked(text)
    read = Script(script, mark, [Value("1", number=True) for _ in values], ksh=ksh, follow=False)
    try:
        read.filled()
    except QuoteError:
        pass  # it is told of where it is executed; what was read so far counts
    return graph_of(read, ksh=ksh)
