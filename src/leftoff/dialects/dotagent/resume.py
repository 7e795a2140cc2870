"""How dotagent resumes: validate, read off the outputs that exist what is done, and say what comes next."""

from __future__ import annotations

import json
import os
from glob import glob
from itertools import pairwise

from leftoff.clock import iso
from leftoff.dialects.draft import DONE
from leftoff.dialects.loose_values import meaning
from leftoff.engine.resume.finding import STOP, UNAPPROVED, WAITING, Finding
from leftoff.model.times import DAY_MS, millis

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any

    from leftoff.dialects.draft import State

REPORTS = "memory/reports"
DETECTED = "Detected interrupted workflow: {id}"
RESUMING = "Resuming workflow {id} from {phase} phase"
LAST = "Last activity: {at}"
COMPLETED = "Completed: {phases}"
CORRUPTED = "State appears corrupted. Start fresh? [y/N]"
STALE = "State is more than 7 days old. Archive it and start fresh? [y/N]"
QUESTION = "Resume workflow from {phase}? [Y/n]"
ANCIENT_MS = 7 * DAY_MS
#: who is asked to do a phase again
AGENTS = {
    "REQUIREMENTS": "re-run PM",
    "ARCHITECTURE": "re-run architects",
    "IMPLEMENTATION": "continue the executor",
    "VERIFICATION": "re-run QA",
    "REFLECTION": "re-run reflector",
}
ROUNDTABLE = "run the roundtable: the designs are there, final_design.json is not"
CHOSEN = "run the roundtable with {design}, which was chosen, and write final_design.json"
FINAL = {
    "REQUIREMENTS": "demand.json",
    "ARCHITECTURE": "final_design.json",
    "VERIFICATION": "verification.json",
    "REFLECTION": "reflection*",
}
MOST_BYTES = 16 << 20
DESIGN = "ARCHITECTURE"
ROUNDTABLE_CHOOSES = "let the roundtable choose"


def output_of(phase: str, state: State, project: str) -> str | None:
    """What a phase left behind, if it is whole: JSON that can be read, or any other file that is not empty. What lay
    there before the run began is of another one."""
    pattern = FINAL.get(phase)
    if pattern is None:
        return None
    for path in _written(f"{REPORTS}/{pattern}", state, project):
        full = os.path.join(project, path)
        if path.endswith(".json"):
            if read_json(full) is not None:
                return path
        elif os.path.isfile(full) and os.path.getsize(full) > 0:
            return path
    return None


def read_json(path: str) -> Any:
    """What a file of JSON holds; ``None`` where there is none, or it is half written."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > MOST_BYTES:
            return None
        with open(path, encoding="utf-8-sig") as file:
            return json.load(file)
    except (OSError, ValueError, RecursionError):
        return None


def next_action(state: State, phase: str, project: str) -> str:
    """What to do in a phase that was interrupted."""
    if phase != DESIGN or not designs(state, project):
        return AGENTS[phase]
    design = chosen(state)
    return CHOSEN.format(design=design) if design else ROUNDTABLE


def designs(state: State, project: str) -> list[str]:
    """The designs that the architects left to choose from, by their paths; none once one is final."""
    if output_of(DESIGN, state, project) is not None:
        return []
    return _written(f"{REPORTS}/designs/*", state, project)


def options(phase: str, state: State, project: str) -> list[str]:
    """Of the design, one of those that are there; of any other phase, that it is approved."""
    found = designs(state, project) if phase == DESIGN else []
    return [os.path.basename(path) for path in found] or ["approve"]


def chosen(state: State) -> str | None:
    """The design that a person chose."""
    about = state.of("approval").get(DESIGN)
    choice = about.get("choice") if isinstance(about, dict) and about.get("status") != "rejected" else None
    return choice if isinstance(choice, str) else None


def settled(state: State, project: str) -> dict[str, dict[str, Any]]:
    """Steps that were in flight and whose output says how they ended; a phase, also where it was put back since."""
    out: dict[str, dict[str, Any]] = {}
    now = next((name for name in AGENTS if _status(state, name) not in DONE), None)
    for path, step in state.steps():
        flying = step.get("status") == "running"
        if path in AGENTS and (flying or (path == now and step.get("status") == "pending")):
            done = output_of(path, state, project)
            if done is not None:
                ended = {"completed_at": _written_at(done, project), "adopted": True}
                out[path] = {**step, "status": "completed", "outputs": [done], **ended}
        elif "/" in path and flying:
            word, output = _ended(step, project)
            if word is not None:
                about = {"completed_at": _written_at(output, project), "adopted": True}
                out[path] = {**step, "status": word, **about}
    return out


def _written_at(output: str, project: str) -> str:
    """When an output was written: nobody knows better when the step ended."""
    return iso(os.stat(os.path.join(project, output)).st_mtime_ns // 1_000_000)


def _written(pattern: str, state: State, project: str) -> list[str]:
    """Files of this run: they were written after it began."""
    began = millis(state.run("created_at")) or 0
    found = sorted(glob(pattern, root_dir=project))
    return [path for path in found if os.stat(os.path.join(project, path)).st_mtime * 1000 >= began]


def _ended(step: dict[str, Any], project: str) -> tuple[str | None, str]:
    """The final status in the output of a task, and that output."""
    for path in step.get("outputs") or ():
        if isinstance(path, str) and not os.path.isabs(path) and ".." not in path.split("/"):
            found = read_json(os.path.join(project, path))
            word = meaning(found.get("status")) if isinstance(found, dict) else None
            if word in ("completed", "failed", "skipped"):
                return word, path
    return None, ""


def doubt(codes: Collection[str]) -> str | None:
    """What is asked first: merely old state is not corrupted, and who has to approve or choose is asked for that."""
    others = set(codes) - {WAITING, UNAPPROVED}
    return None if not others else STALE if others == {"age.stale"} else CORRUPTED


def findings(state: State, project: str) -> Iterator[Finding]:
    """`VALIDATE`, as far as it is not checked of every run: phases in their order; designs that nobody chose from."""
    steps = state.of("step")
    known = [(name, steps[name].get("status")) for name in AGENTS if isinstance(steps.get(name), dict)]
    for (name, status), (later, then) in pairwise(known):
        if status not in DONE and then not in (None, "pending"):
            what = "is completed" if then in DONE else f"is {then}"
            yield Finding(
                "progress.illegal",
                f"{later} {what}, and {name}, which comes before it, is not completed.",
                "Check these phases (`leftoff show --steps`); --accept progress.illegal resumes anyway.",
                name,
            )
    offered = designs(state, project)
    if offered and _status(state, DESIGN) == "running" and chosen(state) is None:
        first = os.path.basename(offered[0])
        yield Finding(
            WAITING,
            f"{DESIGN} waits for a person to choose a design: {', '.join(offered)}.",
            f"`leftoff approve {state.run_id} {DESIGN} --choice {first}` chooses one; "
            f"--accept {WAITING} leaves it to the roundtable.",
            DESIGN,
            choices=(*options(DESIGN, state, project), ROUNDTABLE_CHOOSES, STOP),
        )


def warnings(state: State, now: int) -> list[str]:
    began = millis(state.run("created_at"))
    if began is not None and now - began > ANCIENT_MS:
        return [f"The state is {(now - began) // DAY_MS} days old; proceed with caution, or start fresh."]
    return []


def greeting(state: State, phase: str, project: str, now: int) -> list[str]:
    done = [name for name in AGENTS if _status(state, name) in DONE]
    return [
        DETECTED.format(id=state.run_id),
        RESUMING.format(id=state.run_id, phase=phase),
        LAST.format(at=state.updated_at),
        COMPLETED.format(phases=", ".join(done) or "none"),
        f"Next: {next_action(state, phase, project)}",
        *warnings(state, now),
    ]


def _status(state: State, name: str) -> Any:
    record = state.of("step").get(name)
    return record.get("status") if isinstance(record, dict) else None
