"""The rules of the house that a linter does not know, read off the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
FACES = ("cli", "agents", "web", "integrations")
RECORDS = (
    "leftoff.agents.session_recording",
    "leftoff.agents.agent_session",
)  # of a session, in place of an operation
# Who may read the environment: the caller; below it the user's name and the debug switch;
# the variables of terminals and of agents' programs; and the process of a step, which is told everything by it.
ENVIRONMENT = {
    "leftoff.cli.screen",
    "leftoff.engine.settings",
    "leftoff.engine.git",  # what git itself reads
    "leftoff.host",
    "leftoff.workflow.python_step",
    "leftoff.agents.hook_process",  # the variables that Claude Code sets for its hooks
    "leftoff.agents.hook_events",  # which version of the agent calls
}


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package, by name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(path.read_text())
    return found


def nodes(tree: ast.AST, *, types: bool) -> Iterator[ast.AST]:
    """Every node; those that only a type checker sees if asked for."""
    left = [tree]
    while left:
        for child in ast.iter_child_nodes(left.pop()):
            for_types = (
                isinstance(child, ast.If)
                and isinstance(child.test, ast.Name)
                and child.test.id == "TYPE_CHECKING"
            )
            if types or not for_types:
                yield child
                left.append(child)


def imported(name: str) -> set[str]:
    """The modules of the package that a module imports, at its top or later."""
    found: set[str] = set()
    for node in nodes(modules()[name], types=False):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found.update(whole & modules().keys() or {node.module})
    return (found & modules().keys()) - {name}


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return [one.arg for one in given if one.arg not in ("self", "cls")]


def test_no_two_modules_import_each_other() -> None:
    """Not even late, and not through others: no module can be understood before itself."""
    settled: set[str] = set()
    under: list[str] = []

    def visit(name: str) -> None:
        assert name not in under, " -> ".join([*under[under.index(name) :], name])
        if name in settled:
            return
        under.append(name)
        for other in sorted(imported(name)):
            visit(other)
        settled.add(under.pop())

    for name in modules():
        visit(name)


def test_no_transaction_in_a_face() -> None:
    """A face parses, calls one operation, shows the answer."""
    inside = [
        f"{name}.{node.name}"
        for name, tree in modules().items()
        if name.split(".")[1:2] and name.split(".")[1] in FACES and name not in RECORDS
        for node in nodes(tree, types=True)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        if parameters(node)[:1] in (["tx"], ["view"])
    ]
    assert [] == inside


def test_the_environment_is_read_in_few_places() -> None:
    """Every face means the same by a variable, because none reads it itself."""
    readers = {
        name
        for name, tree in modules().items()
        for node in nodes(tree, types=False)
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
        if ast.unparse(node) in ("os.environ", "os.getenv")
    }
    assert ENVIRONMENT == readers


def test_every_variable_is_on_the_page() -> None:
    """One table has all variables of the environment that leftoff reads or sets."""
    text = "".join(path.read_text() for path in SOURCE.rglob("*.py"))
    used = set(re.findall(r"\bLEFTOFF_[A-Z]+\b", text))
    told = set(
        re.findall(r"\bLEFTOFF_[A-Z]+\b", (ROOT / "docs" / "reference" / "environment.md").read_text())
    )
    assert used == told


def test_the_walks_lead_through_rooms_that_are_there() -> None:
    """Every module that the page on the architecture names exists."""
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", text))
    assert 10 < len(named)
    assert [] == [path for path in sorted(named) if not (SOURCE / "leftoff" / path).exists()]
