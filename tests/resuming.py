"""Resume a run as a face does, with a person who answers: judge, ask, apply, until the run stood still."""

from __future__ import annotations

from leftoff.engine import resume_answers
from leftoff.engine.project import Project
from leftoff.engine.resume_answers import Answerer, Answers, ResumeRequest
from leftoff.engine.settings import Caller
from leftoff.operations import resuming
from leftoff.operations.resuming import Resumed


def resume(project: Project, caller: Caller, request: ResumeRequest, person: Answerer) -> Resumed:
    """Return what came of it."""
    answers = Answers()
    while True:
        verdict = resuming.judge_to_resume(project, caller, request)
        if not resume_answers.take_answers(verdict, answers, person):
            return Resumed(resuming.STOPPED, verdict)
        done = resuming.apply(project, caller, verdict, answers)
        if done.outcome != resuming.AGAIN:
            return done
        if done.question is not None and person.present and not person.says_yes(done.question, default=True):
            answers.fresh = True
