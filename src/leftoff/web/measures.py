"""``/metrics``: the same numbers as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response

from leftoff._version import __version__
from leftoff.errors import LeftoffError
from leftoff.operations.pages.measures import Measures, measures
from leftoff.web.asking import projects_of

KIND = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[dict[str, str], int]


def metrics(request: Request) -> Response:
    """One look at each project; one that cannot be read is down."""
    found = _measured(request)
    known = {key: measured for key, measured in found.items() if measured is not None}
    listeners = request.app.state.hub.listeners
    lines = [
        *_metric("leftoff_build_info", "gauge", "The version of leftoff.", [({"version": __version__}, 1)]),
        *_metric(
            "leftoff_up",
            "gauge",
            "Whether the project's store can be read.",
            [({"project": key}, int(measured is not None)) for key, measured in found.items()],
        ),
        *_metric("leftoff_runs", "gauge", "Runs by status.", _by(known, "runs", "status")),
        *_metric(
            "leftoff_steps", "gauge", "Steps of unfinished runs by status.", _by(known, "steps", "status")
        ),
        *_metric(
            "leftoff_runs_needing_a_person",
            "gauge",
            "Unfinished runs that need a person, by why.",
            _by(known, "needs", "why"),
        ),
        *_metric("leftoff_commits_total", "counter", "Commits that were ever made.", _of(known, "commits")),
        *_metric("leftoff_store_bytes", "gauge", "Bytes that the store takes.", _of(known, "bytes")),
        *_metric("leftoff_page_listeners", "gauge", "Open streams of events.", [({}, listeners)]),
    ]
    return Response("\n".join(lines) + "\n", media_type=KIND)


def _measured(request: Request) -> dict[str, Measures | None]:
    """Each project in numbers; ``None`` where it cannot be read."""
    found: dict[str, Measures | None] = {}
    for one in projects_of(request):
        try:
            with one.open() as project:
                found[one.key] = measures(project)
        except LeftoffError:
            found[one.key] = None
    return found


def _by(known: dict[str, Measures], name: str, label: str) -> list[Sample]:
    return [
        ({"project": key, label: word}, number)
        for key, measured in known.items()
        for word, number in getattr(measured, name).items()
    ]


def _of(known: dict[str, Measures], name: str) -> list[Sample]:
    return [({"project": key}, getattr(measured, name)) for key, measured in known.items()]


def _metric(name: str, kind: str, about: str, samples: Iterable[Sample]) -> list[str]:
    lines = [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
    for labels, value in samples:
        listed = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.append(f"{name}{{{listed}}} {value}" if listed else f"{name} {value}")
    return lines


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
