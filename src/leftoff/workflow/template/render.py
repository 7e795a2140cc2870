"""Templates: ``{{ … }}`` in a definition, rendered when a step starts.

minijinja does the work, strictly: a name that is not defined is an error. What is ours: values print as ``leftoff get``
prints them (text bare, anything else as JSON), and what goes into a script is quoted for the place where it lands.
For that, a script is rendered with a mark in the place of each value, which nobody who writes a value can guess, and
``shell_quote`` then puts the values in. Values are handed over as they are: a variable of 10,000 entries costs nothing
until a template looks at it.
"""

from __future__ import annotations

import os
import re
import secrets

import minijinja

from leftoff.errors import BadTemplate, LeftoffError
from leftoff.model.codec import text as json_text
from leftoff.model.fields import Fields
from leftoff.workflow.definition.problems import nearest
from leftoff.workflow.template.names import FILTERS, GLOBALS, TESTS, is_template, whole
from leftoff.workflow.template.shell_frames import QuoteError
from leftoff.workflow.template.shell_quote import Script, Value, quoted_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

POSIX = frozenset(("sh", "bash", "dash", "ash", "ksh", "ksh93", "mksh", "zsh", "busybox"))
# They execute the rest of their command line as it is. (Unlike ssh, say, which has a shell read it a second time.)
_EXECUTE = frozenset(
    "env nice ionice sudo doas timeout nohup setsid stdbuf docker podman kubectl nsenter chroot".split()
)
# In these a text in "…" is looked at again, for variables and commands: what JSON writes is no literal.
_EXPAND = frozenset(
    "fish csh tcsh perl ruby php pwsh powershell elixir julia groovy tclsh raku crystal ssh".split()
)
_FALSE = frozenset(("", "false", "no", "off", "0", "none", "null", "[]", "{}"))
_SINK = "\0sink"  # under this name a rendering finds where its values go; no variable can be called so
_BRACES = "Braces that are no template stand in {% raw %}…{% endraw %}."


class Raw(Fields):
    """Text that goes into a script as it is (``| raw``), or as what was made of it (``| tojson``, ``| quote``)."""

    text: str
    json: bool = False
    quoted: Any = None  # the value of which ``| quote`` made it

    def __str__(self) -> str:
        return self.text


_WHOLE = re.compile(r"[-+]?[0-9]{1,4000}")


class Templates:
    """Renders the templates of a workflow. ``where`` names the place in errors, like ``convert: run``."""

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
        """The text with its values in it."""
        if not is_template(text):
            return text
        return self._render(text, values, where, None)

    def shell(
        self, text: str, values: Mapping[str, Any], where: str, *, shell: str | Sequence[str] | None = None
    ) -> str:
        """A script with its values in it, each quoted so that the shell reads it as that value and nothing else."""
        if not is_template(text):
            return text
        sink = _Shell(shell)
        rendered = self._render(text, values, where, sink)
        try:
            return sink.filled(rendered)
        except QuoteError as error:
            raise BadTemplate(f"{where}, line {error.line}: {error.message}", hint=error.hint) from None

    def value(self, text: str, values: Mapping[str, Any], where: str) -> Any:
        """What an expression stands for, of whatever type; ``{{ … }}`` around it may be there or not."""
        inner = whole(text)
        taken = _Taken()
        self._render(f"{{{{ {text if inner is None else inner} }}}}", values, where, taken)
        return taken.value

    def test(self, text: str, values: Mapping[str, Any], where: str) -> bool:
        """Whether a condition holds: an expression, or a template that renders as true or false."""
        if is_template(text) and whole(text) is None:
            found: Any = self.render(text, values, where)
        else:
            found = self.value(text, values, where)
        return found.strip().lower() not in _FALSE if isinstance(found, str) else bool(found)

    def names(self, text: str) -> set[str]:
        """The names that a template takes from outside."""
        try:
            return self._env.undeclared_variables_in_str(text) - GLOBALS
        except minijinja.TemplateError as error:
            raise BadTemplate(
                f"A template cannot be read: {error.detail or error.message}.", hint=_BRACES
            ) from None

    def syntax(self, text: str) -> minijinja.TemplateError | None:
        """What keeps a template from being read at all."""
        try:
            self._env.undeclared_variables_in_str(text)
        except minijinja.TemplateError as error:
            return error
        return None

    def _render(self, text: str, values: Mapping[str, Any], where: str, sink: _Sink | None) -> str:
        context: dict[str, Any] = {**values, _SINK: sink}
        context.pop("self", None)  # minijinja cannot be handed a value of that name
        try:
            return self._env.render_str(text, where, **context)
        except minijinja.TemplateError as error:
            raise _explained(error, text, context, where) from None
        except LeftoffError as error:
            raise BadTemplate(f"{where}: {error.message}", hint=error.hint) from None
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise BadTemplate(f"{where}: {type(error).__name__}: {error}") from None


def is_posix(shell: str | Sequence[str] | None) -> bool:
    """Whether a ``shell:`` reads quotes as sh does, once. Not given: it is bash or sh."""
    names = _words(shell)
    if not names or names[0] in POSIX:
        return bool(names) or shell is None
    while len(names) > 1 and names[-1].startswith("-"):
        names.pop()
    return names[0] in _EXECUTE and names[-1] in POSIX


def how_to_hand_over(shell: str | Sequence[str] | None) -> str:
    """What to write where a value cannot be quoted: JSON is a literal in most languages, and not in all."""
    if expands(shell):
        return 'Hand it over in `env:` and read that variable: what stands in "…" may be executed there.'
    return "Write {{ x | tojson }} for a literal, {{ x | raw }} for the bare text, or hand it over in `env:`."


def expands(shell: str | Sequence[str] | None) -> bool:
    """Whether whoever reads the script, in the end, executes what stands in a text in "…"."""
    names = {word.rstrip("0123456789.-") or word for word in _words(shell)}
    return not names.isdisjoint(_EXPAND | POSIX)


def is_ksh(shell: str | Sequence[str] | None) -> bool:
    """Whether ``[ … -eq … ]`` counts as ``[[ … ]]`` does in a shell."""
    return any(name.endswith(("ksh", "ksh93", "zsh")) for name in _words(shell))


def _words(shell: str | Sequence[str] | None) -> list[str]:
    """A command line, programs without their folder."""
    words = [] if shell is None else shell.split() if isinstance(shell, str) else list(shell)
    return [os.path.basename(word) for word in words]


class _Sink:
    """Where a rendering puts its values: ``put`` gives what stands in the text for one."""

    def put(self, value: Any) -> str:
        raise NotImplementedError


class _Taken(_Sink):
    """Keeps the value."""

    value: Any = None

    def put(self, value: Any) -> str:
        self.value = value.text if isinstance(value, Raw) else value
        return ""


class _Shell(_Sink):
    """Keeps the values, and leaves a mark for each."""

    def __init__(self, shell: str | Sequence[str] | None) -> None:
        self.shell = shell
        self.posix = is_posix(shell)
        self.literal = not self.posix and not expands(shell)  # whether JSON is one
        self.ksh = is_ksh(shell)
        self.values: list[Value] = []
        self.key = str(secrets.randbits(128))
        self.mark = re.compile(f"\ue000{self.key}:([0-9]+)\ue001")

    def put(self, value: Any) -> str:
        quoted = isinstance(value, Raw) and value.quoted is not None and self.posix
        if quoted:
            value = value.quoted
        elif isinstance(value, Raw) and (self.literal if value.json else value.quoted is None):
            return value.text
        if not self.posix:
            name = " ".join(_words(self.shell))
            raise BadTemplate(
                f"leftoff cannot quote for {name}, and a value is put into its script",
                hint=how_to_hand_over(self.shell),
            )
        many = isinstance(value, (list, tuple)) or _is_view(value)
        text = [self._plain(shown(entry)) for entry in value] if many else self._plain(shown(value))
        self.values.append(Value(text, quoted=quoted))
        return f"\ue000{self.key}:{len(self.values) - 1}\ue001"

    def _plain(self, text: str) -> str:
        """Text that was itself rendered ({% set %}, a macro) has marks in it: the values come back."""
        if self.key not in text:
            return text
        return self.mark.sub(lambda found: self.values[int(found[1])].joined, text)

    def filled(self, rendered: str) -> str:
        order = [self.values[int(found[1])] for found in self.mark.finditer(rendered)]
        if not order:
            return rendered
        letter = next(
            chr(code) for code in range(0xE000, 0xF8FF) if chr(code) not in self.mark.sub("", rendered)
        )
        return Script(self.mark.sub(letter, rendered), letter, order, ksh=self.ksh).filled()


def _is_view(value: Any) -> bool:
    return type(value).__name__ in ("dict_keys", "dict_values", "dict_items", "range")


@minijinja.pass_state
def _finish(state: Any, value: Any) -> Any:
    """Every value on its way into the text."""
    sink = state.lookup(_SINK)
    return shown(value) if sink is None else sink.put(value)


def shown(value: Any) -> str:
    """A value as text: text bare, anything else as JSON."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Raw):
        return value.text
    return json_text(_json(value))


def _json(value: Any) -> Any:
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, (list, tuple)) or _is_view(value):
        return [_json(entry) for entry in value]
    if isinstance(value, dict):
        return {shown(key): _json(entry) for key, entry in value.items()}
    if value is None or isinstance(value, (str, int, float)):
        return value
    what = (
        "a function: call it, as in failed('convert')"
        if callable(value)
        else f"no value, but {type(value).__name__}"
    )
    raise BadTemplate(f"this is {what}")


def _explained(error: Any, text: str, values: Mapping[str, Any], where: str) -> BadTemplate:
    """minijinja's error in our words, with the nearest right name."""
    place = f"{where}, line {error.line}" if error.line and "\n" in text.rstrip("\n") else where
    detail = (error.detail or error.message or "").removesuffix(".")
    kind = error.kind
    if kind == "UndefinedError" or "is undefined" in detail:
        named = re.search(r"`([^`]+)` is undefined", detail)
        name = named[1] if named else "a value"
        known = [key for key in values if key != _SINK]
        hint = nearest(name, known) or "Give it under `vars`, with --var, or let an earlier step set it."
        hint = hint if re.fullmatch(r"\w+", name) else "It is read from something that does not have it."
        return BadTemplate(f"{place}: `{name}` is not defined", hint=hint)
    lists = {
        "UnknownFilter": ("filter", FILTERS),
        "UnknownTest": ("test", TESTS),
        "UnknownFunction": ("function", values),
    }
    if kind in lists:
        what, known_names = lists[kind]
        name = re.sub(r"^(filter|test) | is unknown.*$", "", detail)
        return BadTemplate(
            f"{place}: there is no {what} `{name}`",
            hint=nearest(name, [k for k in known_names if k != _SINK]),
        )
    return BadTemplate(f"{place}: {detail}", hint=_BRACES if kind == "SyntaxError" else "")


def _stem(value: Any) -> str:
    return os.path.splitext(os.path.basename(_path(value)))[0]


def _basename(value: Any) -> str:
    return os.path.basename(_path(value))


def _dirname(value: Any) -> str:
    return os.path.dirname(_path(value)) or "."


def _ext(value: Any) -> str:
    return os.path.splitext(_path(value))[1]


def _path(value: Any) -> str:
    if isinstance(value, (list, tuple, dict)):
        hint = "Take one entry, as in files[0], or apply it to each: files | map('stem')."
        raise BadTemplate("this filter takes the path of one file, not a list", hint=hint)
    return shown(value).rstrip("/") or shown(value)


def _tojson(value: Any, indent: int | None = None) -> Raw:
    if indent is None:
        return Raw(json_text(_json(value)), json=True)
    from json import dumps

    return Raw(dumps(_json(value), indent=indent, ensure_ascii=False), json=True)


def _raw(value: Any) -> Raw:
    """As it is; of a list, its entries with blanks between them."""
    if isinstance(value, (list, tuple)):
        return Raw(" ".join(map(shown, value)))
    return Raw(shown(value))


def _quote(value: Any) -> Raw:
    many = isinstance(value, (list, tuple))
    return Raw(quoted_words([shown(entry) for entry in value] if many else shown(value)), quoted=value)


def _int(value: Any) -> int:
    """A whole number, or an error; the engine's own says nothing of the value, and makes a long number another one."""
    number = 0 if value is None else value
    text = str.__str__(number).strip() if isinstance(number, str) else ""
    if _WHOLE.fullmatch(text):
        return int(text)
    try:
        return int(float(text)) if isinstance(number, str) else int(number)
    except (TypeError, ValueError, OverflowError):
        hint = "Give a number; or write {{ x }} without `| int`, where text is meant."
        raise BadTemplate(f"`| int` of what is no number: {shown(value)[:80]!r}", hint=hint) from None


_FILTERS: dict[str, Callable[..., Any]] = {
    "int": _int,
    "stem": _stem,
    "basename": _basename,
    "dirname": _dirname,
    "ext": _ext,
    "raw": _raw,
    "quote": _quote,
    "tojson": _tojson,
}
