"""A script that was read, walked through command by command: what each hands on, and to what."""

from __future__ import annotations

import re

from leftoff.model.fields import Fields
from leftoff.workflow.template.shell_commands import ASSIGNMENT, SHELLS, command_of, names_read, of_shell
from leftoff.workflow.template.shell_flow import ALL, PRINTS, READS, Command, Evaluated, Place, nodes
from leftoff.workflow.template.shell_frames import COUNT, TICK
from leftoff.workflow.template.shell_parts import (
    ARGUMENT,
    COUNTS,
    DEEP,
    NAME,
    NAMES,
    OUTPUT,
    SETS,
    VALUE,
    Part,
    Parts,
)
from leftoff.workflow.template.shell_prints import prints_numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leftoff.workflow.template.shell_commands import Word
    from leftoff.workflow.template.shell_flow import Graph, Node
    from leftoff.workflow.template.shell_frames import Event
    from leftoff.workflow.template.shell_reader import Reader

_OPENS = frozenset("{ if while until for select case".split())
_REPEATS = frozenset("while until for select".split())
_HEADED = frozenset("for select case".split())
_PASSED = frozenset("then do else elif ! time always coproc".split())
_CLOSES = frozenset("} done fi esac".split())
_DECLARE = frozenset("declare typeset local private export readonly integer float nameref".split())
_OPEN_FILE = re.compile(r"-|/dev/stdin|/dev/fd/.*|/proc/self/fd/.*")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_COUNT = re.compile(r"\$\(\((.*?)\)\)", re.DOTALL)


class _Body(Fields):
    """What is open in a list of commands: compounds and functions, the name of one to come, a group just closed."""

    open: list[tuple[Place, bool]]
    defines: str = ""
    group: Place | None = None

    @property
    def place(self) -> Place:
        return self.open[-1][0]


class Walk:
    """One script."""

    def __init__(self, graph: Graph, script: Reader) -> None:
        self.graph = graph
        self.spans = script.spans
        self.text = script.text
        graph.made += 1
        self.key = "" if graph.made == 1 else str(graph.made)
        self.parts = Parts(script.text, script.mark, script.spans)
        self.seen: set[int] = set()
        self.shifts = re.search(r"\bshift\b", script.text) is not None

    def events(self, events: Sequence[Event], place: Place) -> None:
        """All that was read in one place."""
        self.graph.depth += 1
        body = _Body([(place, False)])
        for event in events if self.graph.depth <= DEEP else ():
            if event.list_of:
                self._list(event, body.place)
            elif not event.pattern or any(word.text == "case" for word in event.members[0]):
                self._pipeline(event, body)
        self.graph.depth -= 1

    def _list(self, event: Event, place: Place) -> None:
        name = (NAME, "", event.list_of.partition("[")[0])
        for word in event.members[0]:
            self.graph.edges_to(name, nodes(self._parts(word, place), self.key, place.function))

    def _pipeline(self, event: Event, body: _Body) -> None:
        before: Node | None = None
        for index, words in enumerate(event.members):
            last = index == len(event.members) - 1
            if body.group is not None and all(word.redirect for word in words):
                printed = self._after_group(words, body)
            else:
                body.group = None
                printed = self._member(words, body, before, event if last else None)
            if last and printed is not None:
                self.graph.edge(printed, body.place.prints)
            before = printed or self.graph.new(READS)

    def _after_group(self, words: Sequence[Word], body: _Body) -> Node | None:
        """What stands behind ``(…)``: where it reads from, and prints to."""
        place, body.group = body.group, None
        assert place is not None
        self._sources(words, place, place.reads)
        return None if _away(words) or place.function != body.place.function else place.prints

    def _member(
        self, words: Sequence[Word], body: _Body, before: Node | None, event: Event | None
    ) -> Node | None:
        rest = list(words)
        defined = rest.pop().text if event is not None and event.defines and rest else ""
        headed = False
        while rest and not headed:
            text = rest[0].text
            if text == "function" and len(rest) > 1:
                body.defines = rest[1].text
                del rest[:2]
            elif text in _OPENS:
                self._open(body, before, repeats=text in _REPEATS)
                before, headed = None, text in _HEADED
                del rest[0 : 0 if headed else 1]
            elif text in _PASSED:
                if text == "coproc":
                    self.graph.edge(body.place.prints, body.place.reads)
                del rest[0]
            elif text in _CLOSES:
                return self._close(body, rest[1:])
            else:
                break
        body.defines = defined or body.defines
        printed = self._command(rest, body.place, before) if rest else None
        if event is not None and event.opened >= 0 and not event.defines:
            return self._group(event.opened, body, before)
        return printed

    def _open(self, body: _Body, before: Node | None, *, repeats: bool = False) -> None:
        """A compound, or the body of a function."""
        graph, parent, name = self.graph, body.place, body.defines
        if name:
            place = graph.functions.setdefault(name, Place(name, (READS, "()", name), (PRINTS, "()", name)))
        else:
            repeats = repeats or parent.repeats
            place = Place(parent.function, graph.new(READS), graph.new(PRINTS), repeats)
            graph.edge(before or parent.reads, place.reads)
        body.defines = ""
        body.open.append((place, bool(name)))

    def _close(self, body: _Body, rest: Sequence[Word]) -> Node | None:
        if len(body.open) == 1:
            return None
        place, function = body.open.pop()
        self._sources(rest, place, place.reads)
        return None if function or _away(rest) else place.prints

    def _group(self, opened: int, body: _Body, before: Node | None) -> Node | None:
        span = self.spans.get(opened)
        if span is None:
            return None
        if span.kind == COUNT:
            self._evaluated([_counted(self.parts.words(opened, span.end))], body.place)
            return None
        self._open(body, before)
        body.group, _ = body.open.pop()
        self.events(span.events, body.group)
        return None  # its output is known when what comes behind it was read

    # -- commands

    def _command(self, words: list[Word], place: Place, before: Node | None) -> Node | None:
        graph = self.graph
        command = Command(words, {}, self.key, place, graph.new(READS), graph.new(PRINTS))
        own = self._sources(words, place, command.reads)
        if not own:
            graph.edge(before or place.reads, command.reads)
        for word in words:
            if word.redirect != "<<":
                command.parts[id(word)] = self._parts(word, place, command)
        graph.commands.append(command)
        plain = [word for word in words if not word.redirect]
        for word in plain:
            self._assignment(word, command)
        self._into(["_"], plain[-1:], command)
        name, arguments = command_of(plain)
        if [word.text for word in plain] == ["exec"]:
            graph.edge(command.reads, place.reads)
        self._effects(name, arguments, command)
        self._scripts(name, arguments, command)
        graph.calls.append((command, name, arguments))
        return None if _away(words) else command.prints

    def _sources(self, words: Sequence[Word], place: Place, reads: Node) -> bool:
        """What a command is given to read by its redirections; whether that is instead of anything else."""
        own = False
        for word in words:
            if word.redirect == "<<":
                parts = [*self.parts.loose(word.start, word.end)]
                parts = parts if word.expands else [part for part in parts if part.kind == VALUE]
                self.graph.edges_to(reads, nodes(parts, self.key, place.function))
                self._counts_in(word, place)
            elif word.redirect in ("<<<", "<"):
                kinds = (OUTPUT,) if word.redirect == "<" else (VALUE, NAME, ARGUMENT, OUTPUT)
                parts = [part for part in self._parts(word, place) if part.kind in kinds]
                self.graph.edges_to(reads, nodes(parts, self.key, place.function))
            standard = word.descriptor in ("", "0") and not _OPEN_FILE.fullmatch(word.text)
            own = own or (word.redirect in ("<<<", "<", "<<") and standard)
        return own

    def _counts_in(self, word: Word, place: Place) -> None:
        """What is counted with in a here-document."""
        if word.expands:
            for found in _COUNT.finditer(self.text, word.start, word.end):
                self._evaluated([_counted([*self.parts.loose(*found.span())])], place)

    def _parts(self, word: Word, place: Place, command: Command | None = None) -> list[Part]:
        if word.start < 0:
            return []
        parts = [*self.parts.of(word.start, word.end), *self.parts.element(word.start, word.end)]
        if place.function in self.graph.shifted or (place.repeats and self.shifts):
            parts = [*map(_shifted, parts)]
        self._evaluated(parts, place, command)
        return parts

    def _evaluated(self, parts: Sequence[Part], place: Place, command: Command | None = None) -> None:
        """What happens while a word is expanded."""
        graph = self.graph
        for part in parts:
            if part.kind in (COUNTS, NAMES, SETS):
                self._evaluated(part.inside, place, command)
            if part.kind in (COUNTS, NAMES):
                inside = nodes(part.inside, self.key, place.function)
                graph.evaluated.append(Evaluated(part.kind, str(part.key), inside))
            elif part.kind == SETS:
                graph.edges_to((NAME, "", str(part.key)), nodes(part.inside, self.key, place.function))
            elif part.kind == OUTPUT and part.key not in self.seen:
                self._substitution(int(part.key), place, command)

    def _substitution(self, opened: int, place: Place, command: Command | None) -> None:
        self.seen.add(opened)
        span, prints = self.spans[opened], (PRINTS, self.key, str(opened))
        inner = Place(place.function, self.graph.new(READS), prints, place.repeats)
        self.graph.edge(place.reads, inner.reads)
        if self.text[opened - 2 : opened] == ">(" and command is not None:
            self.graph.edge(command.prints, inner.reads)
        if span.kind == TICK:
            parts = [*self.parts.loose(opened, span.end)]
            self.graph.edges_to(prints, nodes(parts, self.key, place.function))
            self._script(re.sub(r"\\([\\`$])", r"\1", self.text[opened : span.end]), inner)
        elif self.graph.depth >= DEEP:
            parts = [*self.parts.loose(opened, span.end)]
            self.graph.edges_to(prints, nodes(parts, self.key, place.function))
        else:
            self.events(span.events, inner)

    def _assignment(self, word: Word, command: Command) -> None:
        found = ASSIGNMENT.match(word.shape)
        if found is not None:
            name = _NAME.match(found.group())
            assert name is not None
            self.graph.edges_to((NAME, "", name.group()), command.nodes(word))
            self.graph.names((NAME, "", name.group()), word.shape[found.end() :])

    # -- commands that hand something on

    def _effects(self, name: str, arguments: list[Word], command: Command) -> None:
        if name in _EFFECTS:
            _EFFECTS[name](self, arguments, command)
        elif name in _DECLARE:
            self._declared(name, arguments, command)

    def _into(self, names: Sequence[str], given: Sequence[Word], command: Command) -> None:
        for name in names:
            for word in given:
                self.graph.edges_to((NAME, "", name), command.nodes(word))
                self.graph.names((NAME, "", name), word.shape)

    def _loop(self, arguments: list[Word], command: Command) -> None:
        name = arguments[0].text if arguments else ""
        if [word.text for word in arguments[1:2]] == ["in"]:
            self._into([name], arguments[2:], command)
        else:
            self.graph.edge((ARGUMENT, command.place.function, ALL), (NAME, "", name))

    def _read(self, arguments: list[Word], command: Command) -> None:
        for name in names_read(arguments) or ["REPLY", "MAPFILE"]:
            self.graph.edge(command.reads, (NAME, "", name.partition("[")[0]))

    def _printf(self, arguments: list[Word], command: Command) -> None:
        words = [word.text for word in arguments]
        if words[:1] == ["-v"] and not prints_numbers("printf", arguments[2:], ksh=self.graph.ksh):
            self._into([word.partition("[")[0] for word in words[1:2]], arguments[2:], command)

    def _set(self, arguments: list[Word], command: Command) -> None:
        words = [word.text for word in arguments]
        first = words.index("--") + 1 if "--" in words else 0
        self.graph.give(command, arguments[first:], command.place.function)

    def _shift(self, arguments: list[Word], command: Command) -> None:
        self.graph.shifted.add(command.place.function)

    def _getopts(self, arguments: list[Word], command: Command) -> None:
        self.graph.edge((ARGUMENT, command.place.function, ALL), (NAME, "", "OPTARG"))
        self._into(["OPTARG"], arguments[2:], command)

    def _let(self, arguments: list[Word], command: Command) -> None:
        for word in arguments:
            if word.start >= 0:
                self._evaluated([_counted(self.parts.words(word.start, word.end))], command.place)

    def _cd(self, arguments: list[Word], command: Command) -> None:
        self._into(["PWD", "OLDPWD", "DIRSTACK"], arguments, command)

    def _matched(self, arguments: list[Word], command: Command) -> None:
        if any(word.text == "=~" for word in arguments):
            self._into(["BASH_REMATCH", "MATCH", "match"], arguments, command)

    def _declared(self, name: str, arguments: list[Word], command: Command) -> None:
        """``declare -n NAME=OTHER``"""
        flags = "".join(word.text for word in arguments if word.text.startswith("-"))
        for word in arguments if "n" in flags or name == "nameref" else ():
            left, _, right = word.text.partition("=")
            if right.isidentifier():
                self.graph.same(left, right)
            elif right:
                self.graph.references.append((left, command.place.function))

    def _scripts(self, name: str, arguments: list[Word], command: Command) -> None:
        """Scripts in quotes, which are executed here, or by another shell."""
        if name in ("eval", "trap"):
            self._script(" ".join(map(self._quoted, arguments)), command.place)
        words = [word for word in command.words if not word.redirect]
        for index, word in enumerate(words):
            if word.text.rpartition("/")[2] in SHELLS:
                script, _ = of_shell(words[index + 1 :])
                if script is not None:
                    self._other_shell(script, words[words.index(script) + 2 :], words, command)

    def _other_shell(self, script: Word, given: list[Word], words: list[Word], command: Command) -> None:
        graph = self.graph
        function = f"{words[0].text} -c"
        graph.give(command, given, function)
        if words[0].text == "xargs":
            graph.edge(command.reads, (ARGUMENT, function, "*"))
        self._script(self._quoted(script), Place(function, command.reads, command.prints))

    def _quoted(self, word: Word) -> str:
        return self.parts.script(word.start, word.end) if word.start >= 0 else ""

    def _script(self, text: str, place: Place) -> None:
        if self.graph.depth < DEEP and re.search(r"\$|\b(read|for|set)\b", text):
            read = self.graph.read(text)
            self.graph.depth += 5
            Walk(self.graph, read).events(read.frames[0].events, place)
            self.graph.depth -= 5


_EFFECTS: dict[str, Callable[[Walk, list[Word], Command], None]] = {
    **dict.fromkeys(("for", "select"), Walk._loop),
    **dict.fromkeys(("read", "mapfile", "readarray"), Walk._read),
    **dict.fromkeys(("printf", "print"), Walk._printf),
    **dict.fromkeys(("cd", "pushd"), Walk._cd),
    "let": Walk._let,
    "set": Walk._set,
    "shift": Walk._shift,
    "getopts": Walk._getopts,
    "[[": Walk._matched,
}


def _shifted(part: Part) -> Part:
    """The same, where ``$1`` may be any of the arguments."""
    if part.kind == ARGUMENT:
        return Part(ARGUMENT, ALL, part.quoted)
    return part.but(inside=[*map(_shifted, part.inside)]) if part.inside else part


def _counted(parts: list[Part]) -> Part:
    return Part(COUNTS, "", inside=parts)


def _away(words: Sequence[Word]) -> bool:
    """Whether what a command prints goes elsewhere."""
    return any(
        word.redirect.startswith(">")
        and word.descriptor in ("", "1")
        and not (word.redirect == ">&" and word.text == "1")
        for word in words
    )
