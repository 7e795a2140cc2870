"""Which variables of a script a shell evaluates: it counts with them, or takes what is in them for a name.

This is looked for in the text, wherever it stands: a script in quotes, for another shell, counts as well. How far a
pattern looks is bounded, so that no script takes long.
"""

from __future__ import annotations

import re

_TYPED = re.compile(
    r"\b(?:(?:declare|typeset|local|export|readonly)(?:[ \t]+[-+]\w+)*?[ \t]+([-+]\w*[in]\w*)"
    r"|integer|float|nameref)\s+([^\n;&|]*)"
)
# What a shell counts with, told from what other languages write alike: scripts have programs of those in them, too. A
# command inside, or the length of a text, is no variable's content.
_NAMED = r"(?:\bunset|\bread|(?:\bprintf|\btest|\[)\s+-v)\s(?:[^\n;&|]{0,200}?[\s\"'])?"  # commands that take a name
_COUNTED = re.compile(
    r"\blet\s+(?=[\"']|\S*(?:=|\+\+|--))([^\n;&|]*)"
    r"|\$\{[\w@*]+(?:\[[@*]\])?:\s*([^-=+?}\s][^}]{0,200})\}"
    r"|\$\[([^\]\n]{0,200})\]",
    re.ASCII,
)
_SUBSCRIPTS = re.compile(
    rf"(?:\$\{{[!#]?|(?<![^\s;&|({{])(?=\w*\[[^\]\n]{{0,200}}\]\+?=)|{_NAMED})(\w*)\[([^\]\n]{{0,200}})\]",
    re.ASCII,
)
_DECLARED = re.compile(
    r"\b(?:(?:declare|typeset|local|export|readonly)(?:[ \t]+[-+]\w+)*?[ \t]+[-+]\w*i\w*|integer)\s+([^\n;&|]*)"
)
_NOT_CONTENT = re.compile(r"\$\([^()]{0,500}\)|`[^`]{0,500}`|\$\{#[^}]{0,200}\}")
_COMPARED = re.compile(r"(\S{1,200})\s+-(?:eq|ne|lt|le|gt|ge)\s+(\S{1,200})")
_NAMES = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_BY_TEXT = re.compile(r"\b(?:declare|typeset|local|readonly|export)\s[^\n;&|]{0,200}?-\w*A\w*([^\n;&|]*)")
_EXPANDED = re.compile(
    r"\$\{(?:!(\w+)(?=[}:#%/^,-]|\[(?![@*]))"
    r"|(\w+)(?:\[[^\]\n]{0,200}\])?@P|\([^)]{0,20}?[eP][^)]{0,20}\)(\w+))"
)


def typed_names(script: str) -> frozenset[str] | None:
    """The variables that are numbers or references somewhere in a script; None: it cannot be told."""
    names = set()
    for found in _TYPED.finditer(script):
        bound = "i" not in (
            found[1] or "i"
        )  # declare -n NAME=OTHER: what is put into it is put into the other
        for word in _content(found[2]).split():
            name, sign, _ = word.partition("=")
            if not word.startswith(("#", ">", "<", "2>")) and not (bound and sign):
                names.add(name)
    return frozenset(names) if all(re.fullmatch(r"\w+|[-+]\w+", name, re.ASCII) for name in names) else None


def counted_names(script: str) -> frozenset[str]:
    """The variables whose content a script counts with: bash executes the ``$(…)`` in a subscript there."""
    spans = [
        word
        for test in _between(script, "[[", "]]")
        for pair in _COMPARED.findall(_content(test))
        for word in pair
    ]
    declared = [word for found in _DECLARED.findall(script) for word in found.split()]
    spans += [_content(word.partition("=")[2]) for word in declared]  # declare -i n=$m
    spans += [_content(text) for text in _between(script, "((", "))", "_.")]
    spans += [_content(text) for found in _COUNTED.findall(script) for text in found]
    by_text = keyed_names(script)
    spans += [_content(inside) for name, inside in _SUBSCRIPTS.findall(script) if name not in by_text]
    return frozenset(name for span in spans for name in _NAMES.findall(span))


def keyed_names(script: str) -> frozenset[str]:
    """The lists whose subscripts are texts."""
    words = [word.partition("=")[0] for found in _BY_TEXT.findall(script) for word in found.split()]
    return frozenset(filter(_NAMES.fullmatch, words))


def expanded_names(script: str) -> frozenset[str]:
    """The variables whose content is taken for a name, or for a prompt: ``${!n}``, ``${n@P}``, ``${(e)n}``."""
    return frozenset(name for found in _EXPANDED.findall(script) for name in found if name)


def _between(script: str, opens: str, closes: str, before: str = "") -> list[str]:
    """What stands between two signs; not where a word, or one of these, comes right before it."""
    found: list[str] = []
    at = script.find(opens)
    while at >= 0:
        end = script.find(closes, at + len(opens))
        if end < 0:
            break
        ahead = script[at - 1 : at]
        if not before or not (ahead.isalnum() or (ahead and ahead in before)):
            found.append(script[at + len(opens) : end])
            at = script.find(opens, end + len(closes))
        else:
            at = script.find(opens, at + 1)
    return found


def _content(text: str) -> str:
    return _NOT_CONTENT.sub("", text)
