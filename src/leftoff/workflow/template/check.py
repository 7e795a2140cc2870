"""What can be known of a workflow's templates before anything runs.

Syntax, filters and the steps that are named are known for certain. A variable is wrong where nobody could have set it:
it is not under ``vars``, was not given, and no step that may be over by then could have written it. What is merely
likely to be wrong is a doubt, which ``run --check`` tells and nothing else minds.
"""

from __future__ import annotations

import re

from leftoff.model.fields import Fields
from leftoff.workflow.definition.problems import nearest
from leftoff.workflow.definition.source import position
from leftoff.workflow.template.environment import evaluated_there, last_filter, marked
from leftoff.workflow.template.names import (
    ASKS_STEP,
    FILTERS,
    GLOBALS,
    OF_STEPS,
    RESERVED,
    TESTS,
    Expression,
    Word,
    expressions,
    is_template,
    names,
    unquoted,
)
from leftoff.workflow.template.render import Templates, expands, how_to_hand_over, is_ksh, is_posix
from leftoff.workflow.template.shell_frames import QuoteError
from leftoff.workflow.template.shell_quote import Script, Value
from leftoff.workflow.template.sites import EXPRESSION, SHELL, TEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any

    from leftoff.workflow.definition.graph import Graph
    from leftoff.workflow.definition.model import Step, Workflow
    from leftoff.workflow.definition.problems import Problems
    from leftoff.workflow.template.names import Expression
    from leftoff.workflow.template.shell_flow import Graph as Flow
    from leftoff.workflow.template.sites import Site

_WORDS = re.compile(r"[^\W\d]\w*")
_SETS = ("run", "python", "agent", "manual")
# What other tools call it.
_HABITS = {
    "vars": "A variable goes by its own name: {{ topic }}.",
    "inputs": "A variable goes by its own name: {{ topic }}.",
    "params": "A variable goes by its own name: {{ topic }}.",
    "variables": "A variable goes by its own name: {{ topic }}.",
    "steps": "What a step gave is {{ results.NAME }}, its files {{ outputs.NAME }}, its state {{ status('NAME') }}.",
    "needs": "What a step gave is {{ results.NAME }}, its files {{ outputs.NAME }}, its state {{ status('NAME') }}.",
    "matrix": "`foreach` makes an item known as {{ item }}, or as what `as` says.",
    "github": 'What is in the environment is {{ env.NAME }}, or "$NAME" in a script.',
}


NOT_SET = "Give it under `vars` or with --var, or name it where an earlier step sets it."


def check_templates(
    workflow: Workflow, sites: list[Site], graph: Graph | None, problems: Problems, given: Collection[str]
) -> None:
    """Look at every template. Without a graph (something is wrong already) variables are left alone."""
    checker = _Checker(workflow, graph, problems, given)
    for site in sites:
        checker.check(site)


class _Checker:
    def __init__(
        self, workflow: Workflow, graph: Graph | None, problems: Problems, given: Collection[str]
    ) -> None:
        self.workflow = workflow
        self.graph = graph
        self.problems = problems
        self.templates = Templates()
        self.known = {*workflow.vars, *given}
        self.parts: set[str] = set()  # of a name with dashes that was told already
        self.ids: dict[str, list[str]] = {}
        for step in workflow.walk():
            self.ids.setdefault(step.id, []).append(step.path)

    def check(self, site: Site) -> None:
        if site.mode in (EXPRESSION, TEST) and not is_template(site.text):
            site = _wrapped(site)
        elif not is_template(site.text):
            return
        error = self.templates.syntax(site.text)
        if error is not None:
            self._unreadable(site, error)
            return
        step = self.workflow.find(site.step)
        self.parts.clear()
        for expression in expressions(site.text):
            self._words(site, expression)
            self._steps(site, expression, step)
        if site.mode == SHELL and step is not None:
            self._quoting(site, step)
        if site.key == "env" and step is not None:
            self._environment(site, step)
        if step is not None and self.graph is not None:
            self._variables(site, step, self.graph)

    def _add(self, site: Site, start: int, snippet: str, message: str, hint: str) -> None:
        self.problems.place(*self._place(site, start, snippet), message, hint)

    def _doubt(self, site: Site, word: Word, message: str, hint: str) -> None:
        self.problems.doubt(*self._place(site, word.start, word.text), message, hint)

    def _place(self, site: Site, start: int, snippet: str) -> tuple[int, int]:
        return position(self.workflow.text, site.offset(start, snippet, self.workflow.text))

    def _unreadable(self, site: Site, error: Any) -> None:
        """A template that is none."""
        detail = error.detail or error.message
        start = _characters(site.text, error.range[0]) if error.range else 0
        snippet = _snippet(site.text, start)
        hint = "Braces that are no template stand in {% raw %}…{% endraw %}."
        if "end of input" in detail and "end of variable block" in detail:
            start, snippet, detail = site.text.rfind("{{"), "{{", "a `{{` without its `}}`"
        self._add(site, start, snippet, f"template: {detail}", hint)

    # -- filters, tests

    def _words(self, site: Site, expression: Expression) -> None:
        words = expression.words
        for index, word in enumerate(words[1:], 1):
            if word.kind != "name":
                continue
            before = words[index - 1].text
            if before == "not" and index > 1 and words[index - 2].text == "is":
                before = "is"
            for sign, kind, known in (("|", "filter", FILTERS), ("is", "test", TESTS)):
                if (
                    before == sign
                    and word.text not in known
                    and word.text not in ("not", "none", "true", "false")
                ):
                    self._add(
                        site,
                        word.start,
                        word.text,
                        f"there is no {kind} `{word.text}`",
                        nearest(word.text, known),
                    )

    def _quoting(self, site: Site, step: Step) -> None:
        if is_posix(step.shell):
            found = refused(site.text, ksh=is_ksh(step.shell))
            if found is not None:
                start, word = found.expression.start, _opening(site.text, found.expression)
                tell = self.problems.place if found.sure else self.problems.doubt
                bad = "that is no number" if "counts with" in found.message else "with blanks or quotes"
                hint = found.hint if found.sure else f"One {bad} will be an error. {found.hint}"
                tell(*self._place(site, start, word), found.message, hint)
            return
        for expression in expressions(site.text):
            piped = [word.text for word in expression.words[-2:]]
            literal = piped == ["|", "tojson"] and not expands(step.shell)
            if not expression.block and piped != ["|", "raw"] and not literal:
                shell = step.shell if isinstance(step.shell, str) else " ".join(step.shell or ())
                hint = how_to_hand_over(step.shell)
                message = f"leftoff cannot quote a value for `{shell}`"
                self._add(site, expression.start, _opening(site.text, expression), message, hint)

    def _environment(self, site: Site, step: Step) -> None:
        """A value in the environment that a script of the step evaluates."""
        name = site.name.removeprefix("env.")
        values = [word for word in expressions(site.text) if not word.block and last_filter(word) != "raw"]
        if not is_posix(step.shell) or not values:
            return
        alone = values[0].start == 0 and values[0].end == len(site.text)
        for text in (_PLAIN, _OTHER):
            held = _stand_in(values[0], text) if alone else Value(text, number=False)
            for found in evaluated_there(step.scripts, {name: held}, ksh=is_ksh(step.shell)):
                place = self._place(site, values[0].start, _opening(site.text, values[0]))
                if text == _PLAIN:
                    self.problems.place(*place, found.message, found.hint)
                else:
                    hint = f"One that is no {found.only} will be an error. {found.hint}"
                    self.problems.doubt(*place, found.message, hint)
                return

    # -- steps

    def _steps(self, site: Site, expression: Expression, step: Step | None) -> None:
        for word, name, attribute in _named_steps(expression):
            found = self._find(name)
            if found is None:
                self._no_step(site, word, name, attribute, expression)
            elif len(found) > 1:
                hint = f"Say which one: {', '.join(found)}."
                self._add(site, word.start, word.text, f"several steps are called `{name}`", hint)
            elif step is not None and self.graph is not None:
                left = expression.words[expression.words.index(word) - 2].text in OF_STEPS
                self._order(site, word, found[0], self.graph, left=left)

    def _find(self, name: str) -> list[str] | None:
        return [name] if self.workflow.find(name) is not None else self.ids.get(name)

    def _no_step(self, site: Site, word: Word, name: str, attribute: bool, expression: Expression) -> None:
        base = expression.words[expression.words.index(word) - 2].text
        dashed = [known for known in self.ids if known.startswith(f"{name}-")]
        if attribute and dashed:
            self.parts.update(dashed[0].split("-"))
            hint = f"A name with a dash in it goes in brackets: {base}['{dashed[0]}']."
        elif name in self.known:
            hint = f"The name of a step goes in quotes; {{{{ {name} }}}} alone is the variable."
        else:
            hint = nearest(name, [*self.ids, *self.workflow.by_path])
            hint = hint or f"The steps are {', '.join(list(self.workflow.by_path)[:12])}."
        self._add(site, word.start, word.text, f"there is no step `{name}`", hint)

    def _order(self, site: Site, word: Word, path: str, graph: Graph, *, left: bool) -> None:
        """A step that is asked about should be over by then; one must be whose results are asked for."""
        if site.step in graph.before and path != site.step:
            asked = {leaf.path for leaf in self.workflow.by_path[path].walk() if leaf.kind != "phase"}
            open_ = asked - graph.before[site.step] - {site.step}
            if left and open_ & graph.after(site.step):
                hint = f"Ask for it in a step after `{path}`, or move `{path}` before `{site.step}`."
                self._add(site, word.start, word.text, f"`{path}` runs after `{site.step}`", hint)
            elif open_ and not open_ <= graph.earlier(site.step):
                hint = f"`needs: [{path}]` makes sure of it."
                self._doubt(
                    site, word, f"nothing says that `{path}` is over before `{site.step}` starts", hint
                )

    # -- variables

    def _variables(self, site: Site, step: Step, graph: Graph) -> None:
        known = {*self.known, *RESERVED, *GLOBALS, *self.parts}
        if site.item and step.foreach is not None:
            known.add(step.item_name)
        outside = self.templates.names(site.text)
        for name in sorted(outside):
            if name in known and name != "env":
                continue
            word = next(_unguarded(site.text, name), None)
            if word is None:
                continue
            if name == "env":
                self._secret(site)
            else:
                self._unknown(site, step, graph, word, known)

    def _unknown(self, site: Site, step: Step, graph: Graph, word: Word, known: set[str]) -> None:
        name = word.text
        if name in self.workflow.secrets or name == "secrets":
            self._add(site, word.start, name, *_no_secrets("" if name == "secrets" else name))
            return
        anything, named = self._settable(step, graph)
        near = nearest(name, {*known, *named} - {"self"} - GLOBALS)
        if name in named:
            return
        if name == "item" and step.foreach is not None and site.item:
            near = f"The item is called `{step.item_name}` here."
        elif name == "item" and step.foreach is None:
            near = "Only a step with `foreach` has one."
        elif step.foreach is not None and step.foreach.kind == "matrix" and name in step.foreach.value:
            near = f"An entry of the matrix is `matrix.{name}`."
        if anything:
            if near:
                self._doubt(site, word, f"`{name}` is not under `vars`; an earlier step must set it", near)
            return
        hint = _HABITS.get(name) or near or NOT_SET
        if name == step.item_name and step.foreach is not None:
            hint = "The items are not known yet where `foreach` says what they are."
        self._add(site, word.start, name, f"`{name}` is not defined", hint)

    def _settable(self, step: Step, graph: Graph) -> tuple[bool, set[str]]:
        """Whether a step that may be over by then can set any variable; and which ones others name."""
        own = {inner.path for inner in step.walk()}
        level = graph.level.get(step.path)
        maybe_later: list[Step] = []
        named: set[str] = set()
        for other in self.workflow.leaves():
            if other.kind not in _SETS or other.path in own:
                continue
            if level is not None and graph.level[other.path] > level:
                maybe_later.append(other)
            elif not self._sets(other, named):
                return True, named
        later = graph.after(step.path) if maybe_later else ()
        beside = [other for other in maybe_later if other.path not in later]
        return not all([self._sets(other, named) for other in beside]), named

    @staticmethod
    def _sets(step: Step, named: set[str]) -> bool:
        """Add what a step may set, where that can be told: by what it persists, or by the words of its script."""
        if step.persist is not None:
            named.update(step.persist)
        elif step.kind == "run":
            named.update(_WORDS.findall(step.run))
        return step.persist is not None or step.kind == "run"

    def _secret(self, site: Site) -> None:
        """``env.TOKEN``, where TOKEN is a secret: its value would end up in a command, and in the records."""
        for expression in expressions(site.text):
            for index, word in names(expression):
                if word.text != "env":
                    continue
                name = _member(expression.words, index)
                if name is not None and name[1] in self.workflow.secrets:
                    self._add(site, name[0].start, name[0].text, *_no_secrets(name[1]))


def _no_secrets(name: str) -> tuple[str, str]:
    what = (
        f"`{name}` is a secret, and templates do not see secrets" if name else "templates do not see secrets"
    )
    return what, f'A secret is in the environment of every step: write "${name or "NAME"}" in the script.'


def _member(words: list[Word], index: int) -> tuple[Word, str] | None:
    """``name.member`` or ``name['member']``: the member's word and text."""
    following = words[index + 1 : index + 3]
    if len(following) < 2:
        return None
    sign, member = following
    if sign.text == "." and member.kind == "name":
        return member, member.text
    if sign.text == "[" and member.kind == "text":
        return member, unquoted(member.text)
    return None


def _named_steps(expression: Expression) -> Iterator[tuple[Word, str, bool]]:
    """Each step that is named as it is: its word, its name, and whether it is written as an attribute."""
    words = expression.words
    for index, word in names(expression):
        if word.text in OF_STEPS:
            member = _member(words, index)
            if member is not None:
                yield member[0], member[1], words[index + 1].text == "."
        elif word.text in ASKS_STEP and len(words) > index + 3:
            opened, argument, closed = words[index + 1 : index + 4]
            if opened.text == "(" and argument.kind == "text" and closed.text == ")":
                yield argument, unquoted(argument.text), False


def _unguarded(text: str, name: str) -> Iterator[Word]:
    """Where a name is used without asking whether it is defined."""
    found: list[Word] = []
    for expression in expressions(text):
        words = expression.words
        for index, word in names(expression):
            if word.text != name:
                continue
            after = [follower.text for follower in words[index + 1 : index + 4]]
            if after[:2] in (["is", "defined"], ["is", "undefined"]) or after == ["is", "not", "defined"]:
                return
            if after[:2] not in (["|", "default"], ["|", "d"]):
                found.append(word)
    yield from found


def _opening(text: str, expression: Expression) -> str:
    """The braces and the first word, by which an expression is found in the file."""
    return text[expression.start : expression.words[0].end if expression.words else expression.end]


def _wrapped(site: Site) -> Site:
    """An expression without its braces."""
    out = site.within(site.step)
    out.text = f"{{{{ {site.text} }}}}"
    return out


def _characters(text: str, offset: int) -> int:
    """minijinja counts bytes."""
    return len(text.encode()[:offset].decode(errors="ignore"))


def _snippet(text: str, start: int) -> str:
    """What stands at a place, as far as it is one word."""
    found = re.match(r"\w+|\S", text[start:])
    return found.group() if found else text[:1]


_PLAIN, _OTHER = "1", "a b"


class Refused(Fields):
    """A value that cannot stand where it does; not ``sure``: only some values cannot."""

    expression: Expression
    message: str
    hint: str
    sure: bool


def refused(text: str, *, ksh: bool = False) -> Refused | None:
    """The first value of a template that a shell cannot be given there.

    The reader that quotes values when a step starts is given stand-ins here: one that is safe everywhere, so that what
    it refuses is always wrong; then one that is not, so that what it refuses now may fail later.
    """
    script, mark, values = marked(text)
    graph: Flow | None = None  # the same both times
    for stand_in in (_PLAIN, _OTHER):
        reader = Script(script, mark, [_stand_in(expression, stand_in) for expression in values], ksh=ksh)
        reader.graph = graph
        found = _try(reader, values, sure=stand_in == _PLAIN)
        graph = reader.graph
        if found is not None:
            return found
    return None


def _stand_in(expression: Expression, text: str) -> Value:
    """What is known of a value: numbers are what ``int`` and ``length`` give, and what is written as one."""
    words = expression.words
    number = last_filter(expression) in ("int", "length", "count") or (
        len(words) == 1 and words[0].kind == "number" and words[0].text.isdigit()
    )
    return Value("1" if number else text, quoted=last_filter(expression) == "quote", number=number)


def _try(reader: Script, values: list[Expression], *, sure: bool) -> Refused | None:
    try:
        reader.filled()
    except QuoteError as error:
        inserting = reader.text[reader.at : reader.at + 1] == reader.mark
        index = error.value if error.value >= 0 else reader.used - 1 if inserting else reader.used
        if index < len(values) and (sure or inserting or error.value >= 0):
            return Refused(values[index], error.message.partition(": ")[0], error.hint, sure=sure)
    return None
