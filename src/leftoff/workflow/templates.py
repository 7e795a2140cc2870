"""Render the templates of a workflow (``{{ … }}``) when a step starts, and split them into words with their places.

minijinja renders them strictly: a name that is not defined is an error. Values print as ``leftoff get`` prints them:
text bare, anything else as JSON. Values in a script go into the environment instead; see ``shell_values``. For that a
script is rendered with a mark in the place of each value. The mark cannot be guessed by the author of a value.

minijinja reports which names a template uses, but not where. Messages need the place, so the expressions of a template
are split into words here.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import minijinja

from leftoff.errors import BadTemplate, LeftoffError
from leftoff.model.codec import text as json_text
from leftoff.workflow.shell_values import (
    RefusedValue,
    ScriptValue,
    ShellScript,
    is_shell,
    only_shells,
    shell_quote,
    takes_json,
)
from leftoff.workflow.yaml_source import Node, nearest

# The names that every template knows besides the variables.
RESERVED = ("outputs", "results", "failed", "completed", "skipped", "status", "choice", "run", "env")
OF_STEPS = ("outputs", "results")  # outputs.research, outputs['sign-off']
ASKS_STEP = ("failed", "completed", "skipped", "status", "choice")  # failed('convert')
GLOBALS = frozenset(
    "range dict namespace debug cycler joiner loop caller self super true false none True False None".split()
)
FILTERS = frozenset(
    "abs attr basename batch bool capitalize chain count d default dictsort dirname e escape ext filesizeformat first "
    "float format groupby indent int items join last length lines list lower map max min pluralize pprint quote raw "
    "reject rejectattr replace reverse round safe select selectattr slice sort split stem string striptags sum title "
    "tojson trim truncate unique upper urlencode wordwrap zip".split()
)
TESTS = frozenset(
    "boolean defined divisibleby endingwith eq equalto escaped even false filter float ge greaterthan gt in "
    "integer int iterable le lessthan lower lt mapping ne none number odd safe sameas sequence startingwith string "
    "test true undefined upper".split()
)
_KEYWORDS = frozenset(
    "and or not in is if else true false none True False None recursive with as import".split()
)

_OPEN = re.compile(r"\{\{[-+]?|\{%[-+]?")
_RAW = re.compile(r"\{%[-+]?\s*raw\s*[-+]?%\}.*?\{%[-+]?\s*endraw\s*[-+]?%\}", re.DOTALL)
_TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<close>[-+]?(?:\}\}|%\}))|(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
    r"""|(?P<name>[^\W\d]\w*)|(?P<number>\d[\w.]*)|(?P<sign>==|!=|<=|>=|//|\*\*|.)""",
    re.DOTALL,
)


# How a template is used: as text, as a script, as a condition, as one expression.
TEXT, SHELL, TEST, EXPRESSION = "text", "shell", "test", "expression"
Values = dict[str, Any]  # what a template sees, by name
_FALSE = frozenset(("", "false", "no", "off", "0", "none", "null", "[]", "{}"))
_SINK = "\0sink"  # a rendering finds its sink under this name, which no variable can have
_BRACES = "Put braces that are not a template in {% raw %}…{% endraw %}."
_WHOLE = re.compile(r"[-+]?[0-9]{1,4000}")


@dataclass(slots=True)
class Word:
    """A word of an expression. ``kind`` is name, text, number or sign; ``start`` is its offset in the template."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(slots=True)
class Expression:
    """The words between two braces. ``start`` and ``end`` include the braces. ``block``: it is ``{% … %}``."""

    start: int
    end: int
    words: list[Word]
    block: bool

    @property
    def last_filter(self) -> str:
        """The name of the filter at the end, if it has no arguments."""
        last = [word.text for word in self.words[-2:]]
        return last[1] if last[:1] == ["|"] else ""


def is_template(text: str) -> bool:
    """Return whether there is anything to render in a text."""
    return "{{" in text or "{%" in text


def expressions(text: str) -> Iterator[Expression]:
    """Yield the expressions of a template in their order, except those in ``{% raw %}``."""
    at = 0
    while found := _OPEN.search(text, at):
        raw = _RAW.match(text, found.start())
        if raw is not None:
            at = raw.end()
            continue
        words, at = _words(text, found.end())
        yield Expression(found.start(), at, words, found.group().startswith("{%"))


def _words(text: str, at: int) -> tuple[list[Word], int]:
    """Return the words up to the closing braces, and the offset after those."""
    words: list[Word] = []
    braces = 0  # of a mapping inside the expression
    while at < len(text):
        found = _TOKEN.match(text, at)
        assert found is not None
        kind, piece = str(found.lastgroup), found.group()
        if kind == "close" and braces and piece.endswith("}}"):
            kind, piece = "sign", "}"
        if kind == "close":
            return words, at + len(piece)
        if piece in ("{", "}"):
            braces += 1 if piece == "{" else -1
        if kind != "space":
            words.append(Word(kind, piece, at))
        at += len(piece)
    return words, at


def whole_expression(text: str) -> str | None:
    """Return the expression of a text that is nothing but one ``{{ … }}``."""
    bare = text.strip()
    first = next(expressions(bare), None) if bare.startswith("{{") else None
    if first is None or first.start != 0 or first.end != len(bare) or not bare.endswith("}}"):
        return None
    inner = bare[2:-2]
    inner = inner[1:] if inner[:1] in ("-", "+") else inner  # {{- … -}} removes the blanks around it
    inner = inner[:-1] if inner[-1:] in ("-", "+") else inner
    return inner.strip()


def value_names(expression: Expression) -> Iterator[tuple[int, Word]]:
    """Yield the words that name values, with their index. Attributes, filters, tests and keywords do not."""
    words = expression.words
    for index, word in enumerate(words):
        if word.kind != "name" or word.text in _KEYWORDS or (expression.block and index == 0):
            continue
        before = words[index - 1].text if index else ""
        after = words[index + 1].text if index + 1 < len(words) else ""
        if before in (".", "|", "is") or (before == "not" and index > 1 and words[index - 2].text == "is"):
            continue
        if after == "=" and before in ("(", ","):
            continue
        yield index, word


def member(words: list[Word], index: int) -> tuple[Word, str] | None:
    """Return the word and the text of the member in ``name.member`` or ``name['member']``."""
    if len(words) < index + 3:
        return None
    sign, found = words[index + 1 : index + 3]
    if sign.text == "." and found.kind == "name":
        return found, found.text
    if sign.text == "[" and found.kind == "text":
        return found, unquoted(found.text)
    return None


def unquoted(word: str) -> str:
    """Return the text of a literal."""
    return re.sub(r"\\(.)", r"\1", word[1:-1])


def marked(text: str) -> tuple[str, str, list[Expression]]:
    """Return a script with a mark at each value, the mark, and the values. Values with ``| raw`` are left out."""
    mark = unused_character(text)
    values: list[Expression] = []
    pieces, at = [], 0
    for expression in expressions(text):
        pieces.append(text[at : expression.start])
        at = expression.end
        if not expression.block and expression.last_filter != "raw":
            values.append(expression)
            pieces.append(mark)
    return "".join([*pieces, text[at:]]), mark, values


def unused_character(text: str) -> str:
    """Return a character for private use that is not in a text."""
    return next(chr(code) for code in range(0xE000, 0xF8FF) if chr(code) not in text)


@dataclass(slots=True)
class Site:
    """A template, its step, and the key of the step that holds it. ``name`` is for messages, like ``env.SITE``.

    ``item``: the item of a ``foreach`` is known in it.
    """

    step: str
    key: str
    name: str
    node: Node
    text: str
    mode: str
    item: bool = True

    def offset(self, start: int, snippet: str, source: str) -> int:
        """Return where in the source a piece of the template begins.

        The source may have quotes, escapes and indentation that the template does not have. But a piece that is written
        as it is occurs equally often in both before its place.
        """
        span = source[self.node.start : self.node.end]
        at, found = self.text.find(snippet), span.find(snippet)
        while 0 <= at < start and found >= 0:
            at, found = self.text.find(snippet, at + 1), span.find(snippet, found + 1)
        return self.node.start + max(found, 0)


class Templates:
    """Renders templates. ``where`` names the place in errors, like ``convert: run``."""

    def __init__(self) -> None:
        self._env = minijinja.Environment(
            undefined_behavior="strict",
            keep_trailing_newline=True,
            filters=_FILTERS,
            finalizer=_finish,
            comment_start_string="\0{#",  # YAML has comments, and ${#name} is shell
            comment_end_string="#}\0",
        )

    def render(self, text: str, values: Mapping[str, Any], where: str) -> str:
        """Return the text with its values."""
        return self._render(text, values, where, None) if is_template(text) else text

    def shell(
        self, text: str, values: Mapping[str, Any], where: str, *, shell: str | Sequence[str] | None = None
    ) -> tuple[str, dict[str, str]]:
        """Return a script with a reference to each value, and the environment variables that hold the values."""
        if not is_template(text):
            return text, {}
        sink = _ScriptValues(shell)
        rendered = self._render(text, values, where, sink)
        script = sink.script(rendered)
        try:
            return script.referenced(), script.environment
        except RefusedValue as refused:
            place = _place(text, refused)
            raise BadTemplate(f"{where}, {place}: {refused.message}", hint=refused.hint) from None

    def value(self, text: str, values: Mapping[str, Any], where: str) -> Any:
        """Return the value of an expression, with or without ``{{ … }}`` around it."""
        inner = whole_expression(text)
        sink = _OneValue()
        self._render(f"{{{{ {text if inner is None else inner} }}}}", values, where, sink)
        return sink.value

    def test(self, text: str, values: Mapping[str, Any], where: str) -> bool:
        """Return whether a condition holds: an expression, or a template that renders as true or false."""
        if is_template(text) and whole_expression(text) is None:
            found: Any = self.render(text, values, where)
        else:
            found = self.value(text, values, where)
        return found.strip().lower() not in _FALSE if isinstance(found, str) else bool(found)

    def names(self, text: str) -> set[str]:
        """Return the names that a template takes from outside."""
        error = self.syntax(text)
        if error is not None:
            detail = error.detail or error.message
            raise BadTemplate(f"A template cannot be read: {detail}.", hint=_BRACES)
        return self._env.undeclared_variables_in_str(text) - GLOBALS

    def syntax(self, text: str) -> minijinja.TemplateError | None:
        """Return the syntax error of a template, if it has one."""
        try:
            self._env.undeclared_variables_in_str(text)
        except minijinja.TemplateError as error:
            return error
        return None

    def _render(
        self, text: str, values: Mapping[str, Any], where: str, sink: _OneValue | _ScriptValues | None
    ) -> str:
        context: dict[str, Any] = {**values, _SINK: sink}
        context.pop("self", None)  # minijinja does not take a value of that name
        try:
            return self._env.render_str(text, where, **context)
        except minijinja.TemplateError as error:
            raise _explained(error, text, context, where) from None
        except LeftoffError as error:
            raise BadTemplate(f"{where}: {error.message}", hint=error.hint) from None
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise BadTemplate(f"{where}: {type(error).__name__}: {error}") from None


def _place(text: str, refused: RefusedValue) -> str:
    """Return the line and column of a value; in a template with blocks, which may repeat, only the line."""
    if any(expression.block for expression in expressions(text)):
        return f"line {refused.line}"
    before = text[: marked(text)[2][refused.value].start]
    return f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"


# -- where values go


class _OneValue:
    """Takes the value of an expression."""

    value: Any = None

    def put(self, value: Any) -> str:
        self.value = value.text if isinstance(value, FilteredText) else value
        return ""


class _ScriptValues:
    """Keeps the values of a script, and leaves a mark for each."""

    def __init__(self, shell: str | Sequence[str] | None) -> None:
        self.shell = shell
        self.is_shell = is_shell(shell)
        self.values: list[ScriptValue] = []
        self.key = str(secrets.randbits(128))
        self.mark = re.compile(f"\ue000{self.key}:([0-9]+)\ue001")

    def put(self, value: Any) -> str:
        if isinstance(value, FilteredText):
            as_literal = value.filter == "tojson" and not self.is_shell and takes_json(self.shell)
            if value.filter == "raw" or as_literal:
                return value.text
        if not self.is_shell:
            message, hint = only_shells(self.shell)
            raise BadTemplate(message, hint=hint)
        self.values.append(self._kept(value))
        return f"\ue000{self.key}:{len(self.values) - 1}\ue001"

    def _kept(self, value: Any) -> ScriptValue:
        quoted = None
        if isinstance(value, FilteredText) and value.filter == "quote":
            quoted, value = self._resolved(value.text), value.value
        if not _is_list(value):
            return self._one(value)._replace(quoted=quoted)
        items = [self._one(item) for item in value]
        return ScriptValue(" ".join(item.text for item in items), items=items, quoted=quoted)

    def _one(self, value: Any) -> ScriptValue:
        literal = value is None or isinstance(value, (bool, int, float))
        return ScriptValue(self._resolved(value_text(value)), literal)

    def _resolved(self, text: str) -> str:
        """Return a text that was rendered before ({% set %}, a macro) with its values instead of their marks."""
        return (
            self.mark.sub(lambda found: self.values[int(found[1])].text, text) if self.key in text else text
        )

    def script(self, rendered: str) -> ShellScript:
        order = [self.values[int(found[1])] for found in self.mark.finditer(rendered)]
        mark = unused_character(self.mark.sub("", rendered))
        return ShellScript(self.mark.sub(mark, rendered), mark, order)


@minijinja.pass_state
def _finish(state: Any, value: Any) -> Any:
    """Turn a value into text on its way into the output."""
    sink = state.lookup(_SINK)
    return value_text(value) if sink is None else sink.put(value)


# -- values as text


@dataclass
class FilteredText:
    """A text that ``| raw``, ``| tojson`` or ``| quote`` made of a value."""

    text: str
    filter: str
    value: Any = None

    def __str__(self) -> str:
        return self.text


def value_text(value: Any) -> str:
    """Return a value as text: text bare, anything else as JSON."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, FilteredText):
        return value.text
    return json_text(_json(value))


def _json(value: Any) -> Any:
    if isinstance(value, FilteredText):
        return value.text
    if _is_list(value):
        return [_json(entry) for entry in value]
    if isinstance(value, dict):
        return {value_text(key): _json(entry) for key, entry in value.items()}
    if value is None or isinstance(value, (str, int, float)):
        return value
    if callable(value):
        raise BadTemplate("this is a function: call it, as in failed('convert')")
    raise BadTemplate(f"this is not a value, but {type(value).__name__}")


def _is_list(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return True
    return type(value).__name__ in ("dict_keys", "dict_values", "dict_items", "range")


def _explained(error: Any, text: str, values: Mapping[str, Any], where: str) -> BadTemplate:
    """Return minijinja's error in our words, with the nearest known name."""
    place = f"{where}, line {error.line}" if error.line and "\n" in text.rstrip("\n") else where
    detail = (error.detail or error.message or "").removesuffix(".")
    known = [name for name in values if name != _SINK]
    if error.kind == "UndefinedError" or "is undefined" in detail:
        named = re.search(r"`([^`]+)` is undefined", detail)
        name = named[1] if named else "a value"
        hint = nearest(name, known) or "Give it under `vars`, with --var, or let an earlier step set it."
        hint = hint if re.fullmatch(r"\w+", name) else "It is read from something that does not have it."
        return BadTemplate(f"{place}: `{name}` is not defined", hint=hint)
    lists = {
        "UnknownFilter": ("filter", FILTERS),
        "UnknownTest": ("test", TESTS),
        "UnknownFunction": ("function", known),
    }
    if error.kind in lists:
        what, candidates = lists[error.kind]
        name = re.sub(r"^(filter|test) | is unknown.*$", "", detail)
        return BadTemplate(f"{place}: there is no {what} `{name}`", hint=nearest(name, candidates))
    return BadTemplate(f"{place}: {detail}", hint=_BRACES if error.kind == "SyntaxError" else "")


# -- filters


def _path(value: Any) -> str:
    if isinstance(value, (list, tuple, dict)):
        hint = "Take one entry, as in files[0], or apply it to each: files | map('stem')."
        raise BadTemplate("this filter takes the path of one file, not a list", hint=hint)
    return value_text(value).rstrip("/") or value_text(value)


def _tojson(value: Any, indent: int | None = None) -> FilteredText:
    plain = _json(value)
    text = json_text(plain) if indent is None else json.dumps(plain, indent=indent, ensure_ascii=False)
    return FilteredText(text, "tojson")


def _raw(value: Any) -> FilteredText:
    """Return the text of a value, or of a list's entries with blanks between them, as a part of the script."""
    many = isinstance(value, (list, tuple))
    return FilteredText(" ".join(map(value_text, value)) if many else value_text(value), "raw")


def _quote(value: Any) -> FilteredText:
    entries = value if isinstance(value, (list, tuple)) else [value]
    return FilteredText(" ".join(shell_quote(value_text(entry)) for entry in entries), "quote", value)


def _int(value: Any) -> int:
    """Return a whole number. (minijinja's own filter does not name the value, and rounds long numbers.)"""
    number = 0 if value is None else value
    text = str.__str__(number).strip() if isinstance(number, str) else ""
    if _WHOLE.fullmatch(text):
        return int(text)
    try:
        return int(float(text)) if isinstance(number, str) else int(number)
    except (TypeError, ValueError, OverflowError):
        hint = "Give a number; or write {{ x }} without `| int`, where text is meant."
        raise BadTemplate(f"`| int` of what is not a number: {value_text(value)[:80]!r}", hint=hint) from None


_FILTERS = {
    "int": _int,
    "stem": lambda value: os.path.splitext(os.path.basename(_path(value)))[0],
    "basename": lambda value: os.path.basename(_path(value)),
    "dirname": lambda value: os.path.dirname(_path(value)) or ".",
    "ext": lambda value: os.path.splitext(_path(value))[1],
    "raw": _raw,
    "quote": _quote,
    "tojson": _tojson,
}
