"""What a script's template does with its values, as far as it can be seen without them.

The same reader that quotes values when a step starts is given stand-ins here: one that is safe everywhere, so that what
it refuses is always wrong; then one that is not, so that what it refuses now may fail later, when a value is not plain.
"""

from __future__ import annotations

from leftoff.workflow.template.names import expressions
from leftoff.workflow.template.shell_quote import Script
from leftoff.workflow.template.shell_reader import ARITH, COUNT, QuoteError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.workflow.template.names import Expression

_PLAIN, _OTHER = "1", "a b"


class Refused:
    """A value that cannot stand where it does; not ``sure``: only some values cannot."""

    __slots__ = ("expression", "hint", "message", "sure")

    def __init__(self, expression: Expression, message: str, hint: str, *, sure: bool) -> None:
        self.expression = expression
        self.message = message
        self.hint = hint
        self.sure = sure


def refused(text: str) -> Refused | None:
    """The first value of a template that a shell cannot be given there."""
    mark = next(chr(code) for code in range(0xE000, 0xF8FF) if chr(code) not in text)
    values: list[Expression] = []
    pieces, at = [], 0
    for expression in expressions(text):
        pieces.append(text[at : expression.start])
        at = expression.end
        if not expression.block and not _opted_out(expression):
            values.append(expression)
            pieces.append(mark)
    script = "".join([*pieces, text[at:]])
    return _try(script, mark, values, _PLAIN) or _try(script, mark, values, _OTHER)


def _opted_out(expression: Expression) -> bool:
    return [word.text for word in expression.words[-2:]] in (["|", "raw"], ["|", "quote"])


def _try(script: str, mark: str, values: list[Expression], stand_in: str) -> Refused | None:
    reader = Script(script, mark, [stand_in] * len(values))
    try:
        reader.filled()
    except QuoteError as error:
        sure = stand_in == _PLAIN
        inserting = script[reader.at : reader.at + 1] == mark
        index = reader.used - 1 if inserting else reader.used
        numeric = reader.frames[-1].kind in (ARITH, COUNT)
        if index < len(values) and (sure or (inserting and not numeric)):
            return Refused(values[index], error.message.partition(": ")[0], error.hint, sure=sure)
    return None
