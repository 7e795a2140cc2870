"""Going on with a run: the verdict finding by finding, what would be done with each step, and what to tell an agent."""

from __future__ import annotations

import shlex
from typing import Any

from leftoff.engine.resume.request import ResumeRequest
from leftoff.operations import Project
from leftoff.operations.checkpoints import brief
from leftoff.operations.resume.verdict import verify
from leftoff.operations.runs import target
from leftoff.web.asking import Asked
from leftoff.web.views.heading import heading, ref_of

STEPS = 60  # of the plan
MOST = 10_000  # steps of a run whose brief is made unasked: each of them is read for it
WORDS = {
    "resume": "It can go on.",
    "warn": "It can go on; something is worth a look.",
    "ask": "Something needs your answer before it goes on.",
    "refuse": "It cannot go on as things are.",
}


def view(project: Project, asked: Asked) -> dict[str, Any]:
    """The verdict of now. ``?brief=1``: with the brief, however long that takes."""
    ref = ref_of(asked)
    found = verify(project, asked.caller, ResumeRequest(target(project, asked.caller, ref), resumes=False))
    told = found.to_json()
    plan = [entry for entry in told["plan"] if entry["action"] != "skip"]
    few = len(told["plan"]) <= MOST
    return {
        **heading(project, asked),
        "tab": "go",
        "verdict": told["verdict"],
        "says": WORDS[told["verdict"]],
        "findings": found.findings,
        "plan": plan[:STEPS],
        "left_out": max(0, len(plan) - STEPS),
        "done": len(told["plan"]) - len(plan),
        "brief": brief(project, asked.caller, ref).text if few or asked.query.get("brief") else "",
        "folder": shlex.quote(project.folder),
    }
