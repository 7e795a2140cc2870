#!/usr/bin/env python3
"""Count odd English in the docs, the messages, and the docstrings and comments of the code, and hold it to a budget.

    tools/prose.py                  print the figures; exit 1 if one is above its budget
    tools/prose.py --show PLACE     print each hit in a place (docs, messages, code) with what to write instead
    tools/prose.py FILE ...         print each hit in these files

A budget only goes down: lower it when the figure has fallen. The figures are hits per 1,000 words.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools import messages  # noqa: E402 - of this tree

MESSAGES = ROOT / "tools" / "messages.py"
BUDGETS = {"docs": 1.5, "messages": 2.0, "code": 3.5}

ODD = {
    r"\bwhere (?:it|there|this|none|nothing|no|a|the|they|we) (?:\w+ )?(?:is|are|has|have|was|does|can)\b": "if, when",
    r"(?:^|[.:;] )(?:What|Who|Whoever) (?:[\w'`]+ ){1,6}?(?:is|are|was|has|does|can|stays|goes)\b": "name the thing",
    r"\b(?:whoever|whatever|somebody|anybody|nobody|those who|he who|who(?:se)? \w+s, )\b": "name the actor",
    r"\b(?:is|are|was|were|be) told\b|\btells? of\b|\btold (?:so|of)\b": "reports, prints, is notified",
    r"\b(?:is|are|was) said\b|\bsays? so\b|\bsaid so\b": "prints a warning",
    r"\b(?:of its own|of their own|of yours|of ours|of mine)\b": "its own …",
    r"\b(?:goes|go|went|going) on\b|\bis over\b|\blets go\b": "continues, has ended, deletes",
    r"\bbeside\b": "next to, in parallel",
    r"\bbehind\b": "after",
    r"\b(?<![Tt]here )(?:is|are|was|were) (?:no|none)\b(?! longer| more)": "is not a …",
    r"\b(?:lies|lie|lay)\b": "is stored",
    r"\bstands? (?:at|in|there|where)\b": "is",
    r"\b(?:anew|afresh|by then|shall|thereby|thereof)\b": "again",
    r"\btak(?:en|es|e) in\b": "import, pick up",
    r"\bat work\b": "active, working",
    r"\bcut (?:off|short)\b": "interrupted",
    r", (?:also|too)[.;:]": "put 'also' before the verb",
    r"\bas (?:it|they) (?:lies|lie|stands|stand)\b": "unchanged",
    r"\b(?:meanwhile|in between)[.;]": "in the meantime; name the event",
}
PATTERNS = [(re.compile(pattern, re.M), instead) for pattern, instead in ODD.items()]
Text = tuple[int, str]  # a line number and a piece of prose


def markdown(text: str) -> Iterator[Text]:
    """Yield the prose of a Markdown page: no fenced blocks, no code spans, no link targets."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, re.sub(r"`[^`]*`|\]\([^)]*\)", " x ", line)


def python(text: str) -> Iterator[Text]:
    """Yield the docstrings and comments of a module."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node)
            if docstring:
                yield node.body[0].lineno, re.sub(r"`[^`]*`", " x ", docstring)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(("#!", "# type:", "# noqa")):
            yield token.start[0], token.string.lstrip("# ")


def texts(path: Path) -> Iterator[Text]:
    if path == MESSAGES:
        return markdown(messages.render())
    text = path.read_text(encoding="utf-8")
    return python(text) if path.suffix == ".py" else markdown(text)


def places() -> dict[str, list[Path]]:
    """Return the files of each place."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return {
        "docs": [page for page in pages if "decisions" not in page.parts],
        "messages": [MESSAGES],
        "code": sorted((ROOT / "src").rglob("*.py")),
    }


def hits(paths: list[Path]) -> Iterator[str]:
    for path in paths:
        for number, prose in texts(path):
            for pattern, instead in PATTERNS:
                for match in pattern.finditer(prose):
                    about = " ".join(prose[max(0, match.start() - 30) : match.end() + 30].split())
                    place = f"{path.resolve().relative_to(ROOT)}:{number}"
                    yield f"{place}: {match.group().strip()!r} -> {instead}: … {about} …"


def figure(paths: list[Path]) -> tuple[int, float]:
    """Return the words in some files, and the hits per 1,000 words."""
    words = sum(len(prose.split()) for path in paths for _, prose in texts(path))
    return words, 1000 * sum(1 for _ in hits(paths)) / max(1, words)


def main(words: list[str]) -> int:
    if words[:1] == ["--show"]:
        print("\n".join(hits(places()[words[1]])))
        return 0
    if words:
        print("\n".join(hits([Path(word) for word in words])))
        return 0
    over = []
    for place, paths in places().items():
        count, odd = figure(paths)
        budget = BUDGETS.get(place)
        print(
            f"{place:9} {count:6} words, {odd:4.1f} odd phrases per 1,000"
            + (f" (at most {budget})" if budget else "")
        )
        if budget is not None and odd > budget:
            over.append(place)
    if over:
        print(
            f"Too much odd English in {', '.join(over)}. `tools/prose.py --show {over[0]}` lists it.",
            file=sys.stderr,
        )
    return int(bool(over))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
