"""Where the values of a shell script go: from variable to variable, through functions, pipes and here-documents.

A graph with an edge from whatever is handed on to what gets it: values, variables, arguments of functions, what
commands read and print. The order of commands does not matter in it, nor which branch is taken: it says what may get
somewhere.
What is in a file is not followed; another program may print what it is given, unless it is known for what it prints.
"""

from __future__ import annotations

from collections import deque

from leftoff.model.fields import Fields
from leftoff.workflow.template.shell_commands import UNKNOWN
from leftoff.workflow.template.shell_parts import ARGUMENT, NAME, NAMES, OUTPUT, VALUE
from leftoff.workflow.template.shell_prints import passes_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from leftoff.workflow.template.shell_commands import Word
    from leftoff.workflow.template.shell_parts import Part
    from leftoff.workflow.template.shell_reader import Reader

    Node = tuple[str, str, str]  # a kind, which function or script it is of, its name

READS, PRINTS = "reads", "prints"
_HELD = (NAME, ARGUMENT)
SOME, ALL = "*", "@"  # of arguments: one whose place is not known; all of them


class Place(Fields):
    """Where commands are executed: in which function, what they read and print."""

    function: str
    reads: Node
    prints: Node
    repeats: bool = False  # a loop


_UNKNOWN = Place("?", (READS, "?", ""), (PRINTS, "?", ""))  # any function, called by a name that is not known


class Command(Fields):
    """A simple command, what its words are made of, and where it is executed."""

    words: list[Word]
    parts: dict[int, list[Part]]  # by the id of a word
    script: str
    place: Place
    reads: Node
    prints: Node

    def of(self, word: Word) -> list[Part]:
        return self.parts.get(id(word), [])

    def has(self, *keys: str) -> bool:
        return any(part.key in keys for parts in self.parts.values() for part in parts)

    def nodes(self, word: Word) -> list[Node]:
        return nodes(self.of(word), self.script, self.place.function)


class Evaluated(Fields):
    """What a shell evaluates inside a word: COUNTS or NAMES, of which list, and what gets there."""

    kind: str
    name: str
    nodes: list[Node]


class Graph:
    """What is handed on to what."""

    def __init__(self, read: Callable[[str], Reader], *, ksh: bool) -> None:
        self.read = read  # a script in quotes
        self.ksh = ksh
        self.edges: dict[Node, list[Node]] = {}
        self.arguments: set[tuple[str, str]] = set()
        self.commands: list[Command] = []
        self.evaluated: list[Evaluated] = []
        self.functions: dict[str, Place] = {}
        self.calls: list[tuple[Command, str, list[Word]]] = []
        self.shifted: set[str] = set()
        self.references: list[tuple[str, str]] = []  # names of variables that an argument of a function names
        self._wrappers: set[str] | None = None
        self.made = 0
        self.depth = 0

    def new(self, kind: str) -> Node:
        self.made += 1
        return (kind, "", str(self.made))

    def edge(self, start: Node, end: Node) -> None:
        for kind, function, name in (start, end):
            if kind == ARGUMENT:
                self.arguments.add((function, name))
        self.edges.setdefault(start, []).append(end)
        if start[0] in _HELD and end[0] in _HELD:
            self.edges.setdefault(named_by(start), []).append(named_by(end))

    def names(self, node: Node, text: str) -> None:
        """A text that may be the name of a variable: whoever counts with it counts with that one."""
        if text.isidentifier():
            self.edges.setdefault((NAME, "", text), []).append(named_by(node))
            self.edges.setdefault(named_by((NAME, "", text)), []).append(named_by(node))

    def edges_to(self, end: Node, starts: Iterable[Node]) -> None:
        for start in starts:
            self.edge(start, end)

    def give(self, command: Command, arguments: list[Word], function: str) -> None:
        """Words as the arguments of a function, by their places as far as those are known."""
        place = 1
        for word in arguments:
            parts = command.of(word)
            several = any(not part.quoted and part.kind != VALUE for part in parts) or any(
                part.kind == ARGUMENT and part.key in (ALL, SOME) for part in parts
            )
            place = 0 if several else place
            node = (ARGUMENT, function, str(place) if place else SOME)
            self.edges_to(node, command.nodes(word))
            self.names(node, word.shape)
            place += 1 if place else 0

    def finish(self) -> None:
        """What is known only when everything was read: which commands are functions."""
        for command, name, arguments in self.calls:
            known = self.functions.get(name)
            if known is not None:
                self._call(command, arguments, known)
                continue
            if UNKNOWN in name and self.functions:
                self._call(command, arguments, _UNKNOWN)
            self._program(command, name, arguments)
        for place in self.functions.values():
            self.edge((ARGUMENT, _UNKNOWN.function, ALL), (ARGUMENT, place.function, SOME))
            self.edge(_UNKNOWN.reads, place.reads)
            self.edge(place.prints, _UNKNOWN.prints)
        for function, name in list(self.arguments):
            if name != ALL:
                self.edge((ARGUMENT, function, name), (ARGUMENT, function, ALL))

    @property
    def wrappers(self) -> set[str]:
        """The functions that execute their arguments, ``"$@"``."""
        if self._wrappers is None:
            self._wrappers = {
                command.place.function
                for command, name, _ in self.calls
                if UNKNOWN in name
                and any(part.key in (ALL, SOME) for word in command.words for part in command.of(word))
            }
        return self._wrappers

    def _program(self, command: Command, name: str, arguments: list[Word]) -> None:
        """What it prints of what it is given."""
        printed, copied = passes_on(name, arguments, ksh=self.ksh)
        for word in printed:
            self.edges_to(command.prints, command.nodes(word))
        if copied:
            self.edge(command.reads, command.prints)

    def _call(self, command: Command, arguments: list[Word], place: Place) -> None:
        self.give(command, arguments, place.function)
        self.edge(command.reads, place.reads)
        self.edge(place.prints, command.prints)
        for name, function in self.references:
            if function == place.function:
                for word in arguments:
                    if word.text.isidentifier():
                        self.same(name, word.text)

    def same(self, one: str, other: str) -> None:
        """Two names of one variable."""
        self.edge((NAME, "", one), (NAME, "", other))
        self.edge((NAME, "", other), (NAME, "", one))

    def reached(self, seeds: Iterable[Node]) -> dict[Node, Node | None]:
        """What those get to, each with what it comes from."""
        came: dict[Node, Node | None] = dict.fromkeys(seeds)
        left = deque(came)
        while left:
            start = left.popleft()
            for end in self.edges.get(start, ()):
                if end not in came:
                    came[end] = start
                    left.append(end)
        return came


def named_by(node: Node) -> Node:
    """What is in the variable whose name is in that one."""
    kind, function, name = node
    return (f"named by {kind}", function, name)


def nodes(parts: Iterable[Part], script: str, function: str) -> list[Node]:
    """What parts of a word bring with them."""
    out: list[Node] = []
    for part in parts:
        if part.kind == VALUE:
            out.append((VALUE, script, str(part.key)))
        elif part.kind == NAME:
            out.append((NAME, "", str(part.key)))
        elif part.kind == ARGUMENT:
            all_of_them = part.key in (ALL, SOME)
            out.append((ARGUMENT, function, ALL if all_of_them else str(part.key)))
            out += [] if all_of_them else [(ARGUMENT, function, SOME)]
        elif part.kind == OUTPUT:
            out.append((PRINTS, script, str(part.key)))
        elif part.kind == NAMES:
            out += map(named_by, nodes(part.inside, script, function))
    return out


def way(came: dict[Node, Node | None], node: Node) -> tuple[Node, list[str]]:
    """The value that gets to a node, and the names that it goes by."""
    names: list[str] = []
    first = node
    at: Node | None = node
    while at is not None:
        kind, function, name = at
        if kind == NAME:
            names.append(f"${name}")
        elif kind == ARGUMENT and name not in (SOME, ALL):
            names.append(f"${name}" + (f" of {function}" if function.strip("?") else ""))
        first, at = at, came[at]
    return first, names[::-1]
