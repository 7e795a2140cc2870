#!/usr/bin/env python3
"""Write the generated parts of docs/reference: from the help, the docstrings and the tables of the code.

    tools/reference.py            write the parts that are not up to date, and a page for each verb that has none
    tools/reference.py --check    print the pages that are not up to date; exit 1 if there is one

A generated part is between `<!-- begin NAME -->` and `<!-- end -->`. Everything around it is written by hand: edit it
in the page.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import leftoff
from leftoff import errors
from leftoff.agents import AGENTS
from leftoff.agents.adapters import _KNOWN, LIMITS, Adapter
from leftoff.agents.install_recipes import RECIPES
from leftoff.agents.mcp_tools import LISTED, TOOLS, Tools
from leftoff.cli.options import COMMON, CURRENT, GROUPS, HIDDEN, SAME, VERBS, Spec, read_data, spec_of
from leftoff.engine.findings import CODES, NEVER_YES, is_fixed
from leftoff.engine.settings import OLD_NAMES
from leftoff.operations.page_actions import ACTIONS, PageAction

PAGES = Path(__file__).resolve().parent.parent / "docs" / "reference"
PART = re.compile(r"(<!-- begin ([^>]+?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
NEW_PAGE = "# leftoff {0}\n\n<!-- begin verb {0} -->\n<!-- end -->\n"
PLUMBING = HIDDEN
VISIBLE = [verb for verb in VERBS if verb not in PLUMBING]


def table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def fenced(kind: str, text: str) -> str:
    return f"```{kind}\n{text.rstrip()}\n```\n"


# -- the command


def linked(text: str, verb: str = "") -> str:
    """Mark the options in a text of the help as code, and link each command, except on the page of its own verb."""

    def link(match: re.Match[str]) -> str:
        name = SAME.get(match[2], match[2])
        if name not in VERBS or name == verb:
            return match[1]
        return f"[{match[1]}]({f'plumbing.md#leftoff-{name}' if name in PLUMBING else f'{name}.md'})"

    parts = text.split("`")
    parts[::2] = [re.sub(r"(?<!\w)(--[a-z][a-z-]*)", r"`\1`", part) for part in parts[::2]]
    return re.sub(r"(`leftoff (\w+)[^`]*`)", link, "`".join(parts))


def called(spec: Spec) -> str:
    """Return what a verb does, its usage and its options, as its help prints them; not those in the index."""
    usage, _, rest = spec.help().partition("\n\n")
    options = re.findall(
        r"^  -\S.*\n?(?:^   .*\n?)*", rest.partition("options:\n")[2].partition("\n\n")[0], re.MULTILINE
    )
    common = (*COMMON, *(option.name for option in CURRENT))
    own = "".join(option for option in options if option.split()[0] not in common)
    return "\n\n".join((linked(spec.about, spec.verb), fenced("text", "\n\n".join((usage, own)))))


def verb_part(verb: str) -> str:
    return f"{called(spec_of(verb))}\n[Common options](index.md#options-of-every-verb)\n"


def verbs_part() -> str:
    """Return every visible verb, by group."""
    text = ""
    for group, title in GROUPS.items():
        rows = [
            f"- [{verb}]({verb}.md): {linked(VERBS[verb][1])}\n"
            for verb in VISIBLE
            if VERBS[verb][0] == group
        ]
        text += f"\n### {title}\n\n{''.join(rows)}" if rows else ""
    return text


def plumbing_part() -> str:
    """Return the first paragraph and the usage of each verb that is not visible."""
    text = ""
    for verb in PLUMBING:
        spec = spec_of(verb)
        usage, first = spec.help().partition("\n\n")[0], spec.about.partition("\n\n")[0]
        text += f"\n## leftoff {verb}\n\n{linked(first, verb)}\n\n{fenced('text', usage)}"
    return text


def common_part() -> str:
    rows = [(f"`{name}{' ' + value if value else ''}`", help) for name, (value, help) in COMMON.items()]
    return table(("Option", "Meaning"), rows)


def current_part() -> str:
    return table(
        ("Option", "Meaning"), [(f"`{option.name} {option.metavar}`", option.help) for option in CURRENT]
    )


def same_part() -> str:
    words: dict[str, list[str]] = {}
    for word, verb in SAME.items():
        words.setdefault(verb, []).append(f"`{word}`")
    return "".join(f"- `{verb}`: {', '.join(same)}\n" for verb, same in words.items())


# -- tables of the code


def tools_part() -> str:
    """Return what a model reads about each tool that is listed, and which other tools can be called."""
    text = ""
    for name in LISTED:
        call = getattr(Tools, name)
        given = ", ".join(f"`{word}`" for word in inspect.signature(call).parameters if word != "self")
        text += f"\n### {name}\n\n{inspect.getdoc(call)}\n\nArguments: {given}.\n"
    others = ", ".join(f"`{name}`" for name in TOOLS if name not in LISTED)
    return (
        f"{text}\nTools of earlier versions are not listed, but still work when they are called: {others}.\n"
    )


def installed_part() -> str:
    """Return what `leftoff install` writes in a project, by agent."""

    def row(agent: str) -> tuple[str, ...]:
        recipe = RECIPES[agent]("", "leftoff", user=False)
        paths = [*recipe.entries(), *recipe.files()]
        return f"`{agent}`", ", ".join(f"`{path}`" for path in paths)

    return table(("Agent", "Files"), [row(agent) for agent in AGENTS])


def limits_part() -> str:
    """Return how each agent is held to the limits of a step, and its words for the permissions."""

    def kept(one: Adapter, limit: str) -> str:
        return "option" if limit in one.options else "watched" if limit in one.counted else "refused"

    words = list(dict.fromkeys(word for one in _KNOWN.values() for word in one.permissions))
    limits = [(f"`{name}`", *(kept(one, limit) for limit in LIMITS)) for name, one in _KNOWN.items()]

    def own(one: Adapter, word: str) -> str:
        if word not in one.permissions:
            return "refused"
        return f"`{one.permissions[word]}`" if one.permissions[word] else "as it is set up"

    allowed = [(f"`{word}`", *(own(one, word) for one in _KNOWN.values())) for word in words]
    heads = ("Agent", *(f"`{limit}`" for limit in LIMITS))
    return table(heads, limits) + "\n" + table(("`permissions`", *(f"`{name}`" for name in _KNOWN)), allowed)


def actions_part() -> str:
    def fields(action: PageAction) -> str:
        return (
            ", ".join(f"`{name}` ({kind})" for name, kind in action.fields.items() if name != "plan")
            or "none"
        )

    return table(("Action", "Fields"), [(f"`{name}`", fields(action)) for name, action in ACTIONS.items()])


def exit_codes_part(old: str) -> str:
    """Return the codes and meanings of `leftoff help exit-codes`, with the texts that the page has for them."""
    told = dict(re.findall(r"^\| (\d+) \| .* \| (.*) \|$", old, re.MULTILINE))
    topic = re.search(r"^=== exit-codes\n(.*?)(?:^===|\Z)", read_data("topics.txt"), re.MULTILINE | re.DOTALL)
    listed = re.findall(r"^ +(\d+)  (.*(?:\n {7}.*)*)", topic[1] if topic else "", re.MULTILINE)
    rows = [(code, " ".join(meaning.split()), told.get(code, "?")) for code, meaning in listed]
    return table(("Exit code", "Meaning", "What to do"), rows)


def findings_part(old: str) -> str:
    """Return the table of all findings: codes and levels of the code, with the texts that the page has for them."""
    told = {
        code: rest for code, rest in re.findall(r"^\| `([\w.]+)` \| \w+ \| (.* \| .*) \|$", old, re.MULTILINE)
    }
    rows = [(f"`{code}`", level, *told.get(code, "? | ?").split(" | ")) for code, level in CODES.items()]
    return table(("Code", "Level", "Found", "What to do"), rows)


def levels_part() -> str:
    """Return what cannot be changed about findings."""
    fixed = ", ".join(f"`{code}`" for code in CODES if is_fixed(code))
    kept = ", ".join(f"`{code}`" for code in NEVER_YES)
    return f"- A project cannot change the level of {fixed}.\n- `--yes` does not answer {kept}.\n"


def old_settings_part() -> str:
    """Return the names of settings that still work."""
    rows = [(f"`{'.'.join(old)}`", f"`{'.'.join(new)}`") for old, new in OLD_NAMES.items()]
    return table(("Old", "Now"), rows)


def errors_part() -> str:
    """Return the tree of errors from the docstring that the code keeps."""
    tree = (errors.__doc__ or "").partition("::\n\n")[2].partition("\n\nEach class")[0]
    return fenced("text", inspect.cleandoc(tree))


# -- the Python API


def summary(thing: object) -> str:
    """Return the first paragraph of a docstring, as Markdown."""
    first = (inspect.getdoc(thing) or "").partition("\n\n")[0].replace("\n", " ")
    return first.replace("``", "`")


def signature(name: str, call: Callable[..., Any]) -> str:
    """Return how a function is called, without types."""
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(call).parameters.values()
        if parameter.name != "self"
    ]
    return f"`{name}{inspect.Signature(bare)}`"


def class_part(name: str, *besides: str) -> str:
    """Return the documented public members of a class, but for those that the page explains elsewhere."""
    rows = []
    for word, member in sorted(inspect.getmembers(getattr(leftoff, name))):
        if word.startswith("_") or word in besides or not inspect.getdoc(member):
            continue
        if inspect.isfunction(member):
            rows.append((signature(word, member), summary(member)))
        elif isinstance(member, property):
            rows.append((f"`{word}`", summary(member)))
    return table(("Name", "What it does"), rows)


def functions_part(*names: str) -> str:
    rows = [
        (signature(f"leftoff.{name}", getattr(leftoff, name)), summary(getattr(leftoff, name)))
        for name in names
    ]
    return table(("Call", "What it does"), rows)


PARTS: dict[str, Callable[..., str]] = {
    "verb": verb_part,
    "verbs": verbs_part,
    "plumbing": plumbing_part,
    "common": common_part,
    "current": current_part,
    "same": same_part,
    "tools": tools_part,
    "installed": installed_part,
    "limits": limits_part,
    "actions": actions_part,
    "levels": levels_part,
    "old-settings": old_settings_part,
    "errors": errors_part,
    "class": class_part,
    "functions": functions_part,
}


# These keep the texts that the page has for each row.
REUSED: dict[str, Callable[[str], str]] = {"findings": findings_part, "exit-codes": exit_codes_part}


def filled(text: str) -> str:
    """Return a page with its generated parts as they should be."""

    def part(match: re.Match[str]) -> str:
        name, *words = match[2].split()
        text = REUSED[name](match[3]) if name in REUSED else PARTS[name](*words)
        return match[1] + text.lstrip("\n") + match[4]

    return PART.sub(part, text)


def stale() -> dict[Path, str]:
    """Return the pages that are not up to date, with what they should be. A page without a verb should be empty."""
    folder = PAGES / "cli"
    wanted = {folder / f"{verb}.md": NEW_PAGE.format(verb) for verb in VISIBLE}
    wanted |= {page: page.read_text(encoding="utf-8") for page in sorted(PAGES.rglob("*.md"))}
    pages = {page: filled(text) for page, text in wanted.items()}
    pages |= {folder / f"{page.stem}.md": "" for page in folder.glob("*.md") if _of_no_verb(page)}
    return {page: text for page, text in pages.items() if not page.exists() or page.read_text() != text}


def _of_no_verb(page: Path) -> bool:
    return page.stem not in (*VISIBLE, "index", "plumbing")


def main(words: list[str]) -> int:
    pages = stale()
    for page, text in pages.items():
        print(page.relative_to(PAGES.parent.parent))
        if words == ["--check"]:
            continue
        if text:
            page.write_text(text, encoding="utf-8")
        else:
            page.unlink()
    return int(words == ["--check"] and bool(pages))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
