"""Values that get to a place where a shell evaluates them, however they were handed on."""

from __future__ import annotations

import re

from leftoff.model.fields import Fields
from leftoff.workflow.template.shell_commands import (
    AS_COUNTED,
    AS_DIGITS,
    AS_INPUT,
    AS_NAME,
    AS_WORD,
    UNKNOWN,
    Word,
    command_of,
    evaluated,
    reads_commands,
)
from leftoff.workflow.template.shell_flow import PRINTS, named_by, nodes, way
from leftoff.workflow.template.shell_names import counted_names, expanded_names, keyed_names, typed_names
from leftoff.workflow.template.shell_parts import ARGUMENT, COUNTS, NAME, OUTPUT, VALUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from leftoff.workflow.template.shell_flow import Command, Graph, Node
    from leftoff.workflow.template.shell_quote import Value

PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+", re.ASCII)  # means itself wherever it stands

_TAKE_OPTIONS = ("[", "test", "printf", "wait")  # -v NAME, -p NAME
_COMPARES = frozenset("-eq -ne -lt -le -gt -ge".split())
_EXECUTE = frozenset("env nice ionice nohup setsid stdbuf timeout xargs sudo doas chroot".split())


class Reaches(Fields):
    """A value that gets there: where it comes from, what is wrong, what to do."""

    value: Node
    message: str
    hint: str
    only: str = "number"  # what it may be, if it is not refused whatever it is


class Reach:
    """What of the values of a script is evaluated."""

    def __init__(self, script: str, graph: Graph, values: Mapping[Node, Value]) -> None:
        self.script = script
        self.graph = graph
        self.any = self._from(values, lambda value: not value.is_number)
        self.uncounted = self._from(values, lambda value: not (value.is_number or value.may_count))
        self.unplain = self._from(values, lambda value: not (value.is_number or value.plain))

    def _from(self, values: Mapping[Node, Value], harms: Callable[[Value], bool]) -> dict[Node, Node | None]:
        return self.graph.reached(node for node, value in values.items() if harms(value))

    def found(self) -> Iterator[Reaches]:
        """Everything that must not be."""
        if not self.any:
            return
        keyed = keyed_names(self.script)
        typed = typed_names(self.script)
        for name in sorted(counted_names(self.script) | (typed or frozenset())):
            yield from self._counted((NAME, "", name))
        for name in sorted(expanded_names(self.script)):
            yield from self._named((NAME, "", name))
        for position in self.graph.evaluated:
            if position.kind == COUNTS and position.name not in keyed:
                for node in position.nodes:
                    yield from self._counted(node)
            elif position.kind != COUNTS:
                for node in position.nodes:
                    yield from self._named(node)
        for command in self.graph.commands:
            yield from self._fed(command)
            if any(node in self.any for word in command.words for node in command.nodes(word)):
                yield from self._judged(command, typed)
                yield from self._split(command)

    def _counted(self, node: Node) -> Iterator[Reaches]:
        node = node if node in self.uncounted else named_by(node)
        if node in self.uncounted:
            first, names = way(self.uncounted, node)
            what = _handed(names) if names else "that a command prints"
            message = f"a value {'for ' if names else ''}{what}, which the script counts with"
            yield Reaches(first, message, AS_COUNTED if len(names) == 1 and node[0] == NAME else AS_DIGITS)

    def _named(self, node: Node) -> Iterator[Reaches]:
        if node in self.any:
            first, names = way(self.any, node)
            message = f"a value for {_handed(names)}, which the shell takes for a name or expands again"
            yield Reaches(first, message, AS_NAME)

    def _judged(self, command: Command, typed: frozenset[str] | None) -> Iterator[Reaches]:
        """By the rules for words that a value stands in itself."""
        words, nodes = self._words(command)
        name, arguments = command_of([word for word in words if not word.redirect])
        called = [arguments[index:] for index in range(3)] if name in self.graph.wrappers else []
        if name not in ("[", "test", "[[") and any(word.text in _COMPARES for word in words):
            called.append([Word("[[", "[["), *words])  # [[ ( $n -eq 1 ) ]]
        for each in [words, *called] if nodes else ():
            yield from self._ruled(each, nodes, typed)

    def _ruled(self, words: list[Word], nodes: list[Node], typed: frozenset[str] | None) -> Iterator[Reaches]:
        for found in evaluated(words, ksh=self.graph.ksh, typed=typed, counted=frozenset()):
            node = nodes[found.value]
            number = found.number or found.counted
            came = self.uncounted if number and way(self.any, node)[1] else self.any
            if node not in came or (found.path and node[0] != PRINTS):
                continue
            first, names = way(came, node)
            by = f", by way of {_handed(names)}" if names else ""
            yield Reaches(first, f"{found.message}{by}", AS_DIGITS if number and names else found.hint)

    def _fed(self, command: Command) -> Iterator[Reaches]:
        """A shell that takes its commands from what it reads."""
        if command.reads in self.any and reads_commands(command.words):
            first, names = way(self.any, command.reads)
            by = f", by way of {_handed(names)}" if names else ""
            yield Reaches(first, f"a value that a shell reads as commands{by}", AS_INPUT)

    def _words(self, command: Command) -> tuple[list[Word], list[Node]]:
        """A command's words, with what is handed on to them in the place of values."""
        nodes: list[Node] = []
        words = []
        wraps = command_of([word for word in command.words if not word.redirect])[0] in self.graph.wrappers
        for word in command.words:
            held = []
            for node in command.nodes(word):
                if node in self.any and (node[0] != VALUE or wraps):
                    held.append((len(nodes), node[0] == PRINTS))
                    nodes.append(node)
            words.append(word.but(values=held, counts=False))
        return words, nodes

    def _split(self, command: Command) -> Iterator[Reaches]:
        """Variables without quotes whose blanks make more words, where one may be a command or an option."""
        plain = [word for word in command.words if not word.redirect]
        name, arguments = command_of(plain)
        if name in _TAKE_OPTIONS:
            yield from self._bare(command, arguments, f"a value in `{name}` without quotes", AS_WORD)
        elif UNKNOWN in name or name in _EXECUTE:
            first = arguments if name in _EXECUTE else [word for word in plain if word.text == name][:1]
            yield from self._bare(command, first, "a value that is a command with its arguments", AS_WORD)
        copies = [word for word in command.words if word.redirect.endswith("&")]
        yield from self._bare(command, copies, "a value after `>&`", "Write `> FILE 2>&1`.", quoted=True)

    def _bare(
        self, command: Command, words: list[Word], message: str, hint: str, *, quoted: bool = False
    ) -> Iterator[Reaches]:
        for word in words:
            parts = [
                part
                for part in command.of(word)
                if part.kind in (NAME, ARGUMENT, OUTPUT) and (quoted or not part.quoted)
            ]
            for node in nodes(parts, command.script, command.place.function):
                if node in self.unplain:
                    first, names = way(self.unplain, node)
                    told = f"{message}, by way of {_handed(names)}" if names else message
                    yield Reaches(first, told, hint, "plain word")


def _handed(names: list[str]) -> str:
    """``$n, handed on to $m``"""
    shown = [name for index, name in enumerate(names) if index == 0 or name != names[index - 1]]
    if len(shown) > 4:
        shown = [*shown[:2], "…", shown[-1]]
    return ", handed on to ".join(shown) if shown else "the output of a command"
