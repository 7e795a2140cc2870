"""Check the templates of a workflow before anything runs.

Syntax, filters, the names of steps and the places of values in scripts are known for certain. A variable is wrong if
it is not under ``vars``, was not given, and no step that may have ended by then could have set it. Something that is
only likely to be wrong is a doubt, which ``run --check`` prints and nothing else considers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from leftoff.errors import LeftoffError
from leftoff.workflow.definition import Graph, StepDefinition, Workflow
from leftoff.workflow.shell_values import (
    RefusedValue,
    ScriptValue,
    ShellScript,
    is_shell,
    only_shells,
    takes_json,
)
from leftoff.workflow.templates import (
    ASKS_STEP,
    EXPRESSION,
    FILTERS,
    GLOBALS,
    OF_STEPS,
    RESERVED,
    SHELL,
    TEST,
    TESTS,
    Expression,
    Site,
    Templates,
    Word,
    expressions,
    is_template,
    marked,
    member,
    unquoted,
    value_names,
)
from leftoff.workflow.yaml_source import Problems, nearest, position

NOT_SET = "Give it under `vars` or with --var, or name it where an earlier step sets it."
_WORDS = re.compile(r"[^\W\d]\w*")
_ASKED_FOR = re.compile(r"\bleftoff\s+get\s+['\"]?([^\W\d]\w*)")  # in a script
_SETS = ("run", "python", "agent", "manual")
_NUMBERS = ("int", "length", "count")  # filters that give one


def check_templates(
    workflow: Workflow, sites: list[Site], graph: Graph | None, problems: Problems, given: Collection[str]
) -> None:
    """Check every template. Variables are checked only with a graph, which a file with other errors does not have."""
    checker = _Checker(workflow, graph, problems, given)
    for site in sites:
        checker.check(site)


def mentioned(templates: Templates, step: StepDefinition) -> set[str]:
    """Return the names in the templates of a step."""
    texts = [*_texts(step.key_facts())]
    if step.foreach is not None and step.foreach.kind == "variable":
        texts.append(f"{{{{ {step.foreach.value} }}}}")
    if step.foreach is not None and step.foreach.kind == "matrix":
        texts += [f"{{{{ {axis} }}}}" for axis in step.foreach.value.values() if isinstance(axis, str)]
    if step.when:
        texts.append(f"{{{{ {step.when} }}}}")
    found: set[str] = set()
    for text in texts:
        try:
            found |= templates.names(text)
        except LeftoffError:
            pass  # it is not an expression but a template, which is among the texts as well
    return found


def mentioned_anywhere(workflow: Workflow) -> set[str]:
    """Return the variables that any step names: in a template, as what it sets, or with ``leftoff get``."""
    templates = Templates()
    found: set[str] = set()
    for step in workflow.walk():
        found |= mentioned(templates, step) | {*(step.persist or ()), *_ASKED_FOR.findall(step.run)}
    return found


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a value of a definition."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from _texts(entry)


class _Checker:
    def __init__(
        self, workflow: Workflow, graph: Graph | None, problems: Problems, given: Collection[str]
    ) -> None:
        self.workflow = workflow
        self.graph = graph
        self.problems = problems
        self.templates = Templates()
        self.given = given
        self.known = {*workflow.vars, *given}
        self.parts: set[str] = set()  # of a name with dashes that was reported already
        self.ids: dict[str, list[str]] = {}
        for step in workflow.walk():
            self.ids.setdefault(step.id, []).append(step.path)

    def check(self, site: Site) -> None:
        if site.mode in (EXPRESSION, TEST) and not is_template(site.text):
            site = replace(site, text=f"{{{{ {site.text} }}}}")
        elif not is_template(site.text):
            return
        error = self.templates.syntax(site.text)
        if error is not None:
            self._syntax_error(site, error)
            return
        step = self.workflow.find(site.step)
        self.parts.clear()
        for expression in expressions(site.text):
            self._filters_and_tests(site, expression)
            self._steps(site, expression, step)
        if site.mode == SHELL and step is not None:
            self._script_values(site, step)
        if step is not None and self.graph is not None:
            self._variables(site, step, self.graph)

    def _add(self, site: Site, start: int, snippet: str, message: str, hint: str) -> None:
        self.problems.place(*self._place(site, start, snippet), message, hint)

    def _doubt(self, site: Site, word: Word, message: str, hint: str) -> None:
        self.problems.doubt(*self._place(site, word.start, word.text), message, hint)

    def _place(self, site: Site, start: int, snippet: str) -> tuple[int, int]:
        return position(self.workflow.text, site.offset(start, snippet, self.workflow.text))

    def _syntax_error(self, site: Site, error: Any) -> None:
        detail = error.detail or error.message
        # minijinja counts bytes
        start = len(site.text.encode()[: error.range[0]].decode(errors="ignore")) if error.range else 0
        found = re.match(r"\w+|\S", site.text[start:])
        snippet = found.group() if found else site.text[:1]
        if "end of input" in detail and "end of variable block" in detail:
            start, snippet, detail = site.text.rfind("{{"), "{{", "a `{{` without its `}}`"
        hint = "Put braces that are not a template in {% raw %}…{% endraw %}."
        self._add(site, start, snippet, f"template: {detail}", hint)

    def _filters_and_tests(self, site: Site, expression: Expression) -> None:
        words = expression.words
        for index, word in enumerate(words[1:], 1):
            before = words[index - 1].text
            if before == "not" and index > 1 and words[index - 2].text == "is":
                before = "is"
            kind, known = {"|": ("filter", FILTERS), "is": ("test", TESTS)}.get(before, ("", frozenset()))
            other = word.kind != "name" or word.text in ("not", "none", "true", "false")
            if kind and not other and word.text not in known:
                hint = nearest(word.text, known)
                self._add(site, word.start, word.text, f"there is no {kind} `{word.text}`", hint)

    # -- values in scripts

    def _script_values(self, site: Site, step: StepDefinition) -> None:
        """Report the first value that its place cannot take."""
        if is_shell(step.shell):
            script, mark, values = marked(site.text)
            try:
                ShellScript(script, mark, [self._stand_in(value) for value in values]).referenced()
            except RefusedValue as refused:
                value = values[refused.value]
                self._add(site, value.start, _opening(site.text, value), refused.message, refused.hint)
            return
        for expression in expressions(site.text):
            literal = expression.last_filter == "tojson" and takes_json(step.shell)
            if not expression.block and expression.last_filter != "raw" and not literal:
                opening = _opening(site.text, expression)
                self._add(site, expression.start, opening, *only_shells(step.shell))

    def _stand_in(self, expression: Expression) -> ScriptValue:
        """Return what is known of a value before the run: whether it is a number or a list."""
        words = expression.words
        first = words[0] if words else None
        if expression.last_filter in _NUMBERS or (len(words) == 1 and words[0].kind == "number"):
            return ScriptValue("1", literal=True)
        if expression.last_filter == "quote" or first is None:
            return ScriptValue("x", quoted="x", known=False)
        default = self.workflow.vars.get(first.text) if first.text not in self.given else None
        files = first.text == "outputs" and member(words, 0) is not None
        is_list = (len(words) == 1 and isinstance(default, list)) or (
            files and len(words) == (3 if words[1].text == "." else 4)
        )
        return ScriptValue("x", items=[ScriptValue("x")] if is_list else None, known=False)

    # -- steps

    def _steps(self, site: Site, expression: Expression, step: StepDefinition | None) -> None:
        for word, name, attribute in _named_steps(expression):
            found = [name] if self.workflow.find(name) is not None else self.ids.get(name)
            base = expression.words[expression.words.index(word) - 2].text
            if found is None:
                self._no_step(site, word, name, base if attribute else "")
            elif len(found) > 1:
                hint = f"Say which one: {', '.join(found)}."
                self._add(site, word.start, word.text, f"several steps are called `{name}`", hint)
            elif step is not None and self.graph is not None:
                self._order(site, word, found[0], self.graph, results=base in OF_STEPS)

    def _no_step(self, site: Site, word: Word, name: str, base: str) -> None:
        dashed = [known for known in self.ids if known.startswith(f"{name}-")]
        if base and dashed:
            self.parts.update(dashed[0].split("-"))
            hint = f"A name with a dash in it goes in brackets: {base}['{dashed[0]}']."
        elif name in self.known:
            hint = f"The name of a step goes in quotes; {{{{ {name} }}}} alone is the variable."
        else:
            hint = nearest(name, [*self.ids, *self.workflow.by_path])
            hint = hint or f"The steps are {', '.join(list(self.workflow.by_path)[:12])}."
        self._add(site, word.start, word.text, f"there is no step `{name}`", hint)

    def _order(self, site: Site, word: Word, path: str, graph: Graph, *, results: bool) -> None:
        """A step that a template names should have ended by then. If its results are used, it must have."""
        if site.step not in graph.before or path == site.step:
            return
        asked = {leaf.path for leaf in self.workflow.by_path[path].walk() if leaf.kind != "phase"}
        open_ = asked - graph.before[site.step] - {site.step}
        if results and open_ & graph.after(site.step):
            hint = f"Ask for it in a step after `{path}`, or move `{path}` before `{site.step}`."
            self._add(site, word.start, word.text, f"`{path}` runs after `{site.step}`", hint)
        elif open_ and not open_ <= graph.earlier(site.step):
            message = f"nothing says that `{path}` is over before `{site.step}` starts"
            self._doubt(site, word, message, f"`needs: [{path}]` makes sure of it.")

    # -- variables

    def _variables(self, site: Site, step: StepDefinition, graph: Graph) -> None:
        known = {*self.known, *RESERVED, *GLOBALS, *self.parts}
        if site.item and step.foreach is not None:
            known.add(step.item_name)
        for name in sorted(self.templates.names(site.text)):
            if name in known and name != "env":
                continue
            word = _first_unguarded(site.text, name)
            if word is not None and name == "env":
                self._secret(site)
            elif word is not None:
                self._unknown(site, step, graph, word, known)

    def _unknown(self, site: Site, step: StepDefinition, graph: Graph, word: Word, known: set[str]) -> None:
        name = word.text
        if name in self.workflow.secrets or name == "secrets":
            self._add(site, word.start, name, *_no_secrets("" if name == "secrets" else name))
            return
        anything, named = self._settable(step, graph)
        if name in named:
            return
        near = nearest(name, {*known, *named} - {"self"} - GLOBALS)
        if name == "item" and step.foreach is not None and site.item:
            near = f"The item is called `{step.item_name}` here."
        if anything:
            if near:
                self._doubt(site, word, f"`{name}` is not under `vars`; an earlier step must set it", near)
            return
        self._add(site, word.start, name, f"`{name}` is not defined", near or NOT_SET)

    def _settable(self, step: StepDefinition, graph: Graph) -> tuple[bool, set[str]]:
        """Return whether an earlier step can set any variable, and the variables that earlier steps name."""
        own = {inner.path for inner in step.walk()}
        level = graph.level.get(step.path)
        maybe_later: list[StepDefinition] = []
        named: set[str] = set()
        for other in self.workflow.leaves():
            if other.kind not in _SETS or other.path in own:
                continue
            if level is not None and graph.level[other.path] > level:
                maybe_later.append(other)
            elif not _adds_names(other, named):
                return True, named
        later = graph.after(step.path) if maybe_later else ()
        parallel = [other for other in maybe_later if other.path not in later]
        return not all([_adds_names(other, named) for other in parallel]), named

    def _secret(self, site: Site) -> None:
        """Report ``env.TOKEN`` if TOKEN is a secret: its value would get into a command, and into the records."""
        for expression in expressions(site.text):
            for index, word in value_names(expression):
                found = member(expression.words, index) if word.text == "env" else None
                if found is not None and found[1] in self.workflow.secrets:
                    self._add(site, found[0].start, found[0].text, *_no_secrets(found[1]))


def _adds_names(step: StepDefinition, named: set[str]) -> bool:
    """Add the variables that a step may set, and return whether that is known: from `persist`, or from its script."""
    if step.persist is not None:
        named.update(step.persist)
    elif step.kind == "run":
        named.update(_WORDS.findall(step.run))
    return step.persist is not None or step.kind == "run"


def _no_secrets(name: str) -> tuple[str, str]:
    """Return the message and the hint for a secret in a template."""
    message = (
        f"`{name}` is a secret, and templates do not see secrets" if name else "templates do not see secrets"
    )
    return message, f'A secret is in the environment of every step: write "${name or "NAME"}" in the script.'


def _named_steps(expression: Expression) -> Iterator[tuple[Word, str, bool]]:
    """Yield each step that is named literally: its word, its name, and whether it is written as an attribute."""
    words = expression.words
    for index, word in value_names(expression):
        if word.text in OF_STEPS:
            found = member(words, index)
            if found is not None:
                yield found[0], found[1], words[index + 1].text == "."
        elif word.text in ASKS_STEP and len(words) > index + 3:
            opened, argument, closed = words[index + 1 : index + 4]
            if opened.text == "(" and argument.kind == "text" and closed.text == ")":
                yield argument, unquoted(argument.text), False


def _first_unguarded(text: str, name: str) -> Word | None:
    """Return the first use of a name, unless the template asks somewhere whether it is defined."""
    first: Word | None = None
    for expression in expressions(text):
        words = expression.words
        for index, word in value_names(expression):
            if word.text != name:
                continue
            after = [follower.text for follower in words[index + 1 : index + 4]]
            if after[:2] in (["is", "defined"], ["is", "undefined"]) or after == ["is", "not", "defined"]:
                return None
            if first is None and after[:2] not in (["|", "default"], ["|", "d"]):
                first = word
    return first


def _opening(text: str, expression: Expression) -> str:
    """Return the braces and the first word, by which an expression is found in the file."""
    return text[expression.start : expression.words[0].end if expression.words else expression.end]
