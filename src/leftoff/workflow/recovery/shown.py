"""All that a run from elsewhere would run, as a person is asked about it: its commands, with what becomes a part.

A script gets its values as environment variables. A value that becomes a part of the script (`| raw`), that is in `env`
or `cwd`, or that tells an agent what to do, came along with the run, and is as good as a command. So it is shown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from leftoff.engine.read.state import Reader
from leftoff.model.codec import text
from leftoff.workflow.definition.model import commands_of
from leftoff.workflow.template.template_check import mentioned
from leftoff.workflow.template.templates import Templates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leftoff.store.base import Store
    from leftoff.store.rows import RunRow
    from leftoff.workflow.definition.model import Workflow

_RAW = re.compile(r"\|\s*raw\b")
_OF_STEPS = {"results", "outputs", "item", "choice", "run"}


def what_runs(store: Store, row: RunRow, workflow: Workflow) -> list[str]:
    """A line for each command, and for each value that is put into one as it is."""
    lines, names = commands_of(workflow), _put_in(workflow)
    if not names:
        return lines
    known = store.read(lambda view: Reader(store, view, row.run, row.run_id).values("variable"))
    given = {**workflow.vars, **{name: value.plain for name, value in known.items()}}
    for name in sorted(names & {*given}):
        lines += _lines(name, given[name])
    if names & _OF_STEPS:
        lines.append(f"with what its steps left and are called: `leftoff show {row.run_id}`")
    return lines


def _put_in(workflow: Workflow) -> set[str]:
    """The names in templates that are not quoted."""
    templates, found = Templates(), set[str]()
    for step in workflow.leaves():
        facts = step.key_facts()
        bare = any("{" in str(facts.get(name, "")) for name in ("env", "cwd", "agent"))
        if bare or _RAW.search(str(facts)):
            found |= mentioned(templates, step)
    return found


def _lines(name: str, value: Any) -> Iterator[str]:
    first, *rest = (value if isinstance(value, str) else text(value)).splitlines() or [""]
    yield f"with {name} = {first}"
    yield from (f"    {line}" for line in rest)
