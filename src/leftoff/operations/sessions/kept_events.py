"""What the hooks of an agent tell while the store is out of reach: kept here, and taken in once it is back."""

from __future__ import annotations

from leftoff.engine.lifecycle.sessions import Who
from leftoff.engine.workspace import kept_events
from leftoff.errors import Corrupt, StoreUnavailable, Unsupported
from leftoff.host import Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.operations.sessions.session import Session

    Play = Callable[[Session, dict[str, Any]], None]

_LONGEST = 20_000  # characters of a text
_PATIENCE_S = 2.0  # for a store that was out of reach a moment ago


def keep(session: Session, error: Exception, data: dict[str, Any]) -> bool:
    """Keep an event that could not be told; whether it will be. ``data``: as the agent gave it."""
    if not isinstance(error, StoreUnavailable) or not error.retry or session.driven:
        return False
    who, process = session.who, session.who.process
    about = {
        "agent": who.agent,
        "session": who.session,
        "run": who.run,
        "project": session.project.folder,
        "branch": session.branch,
        "at": session.project.at,
        "process": [process.scope, process.pid, process.started] if process is not None else None,
        "data": session.project.redactor.scrub("event", _fit(session, data))[0],  # by their names, too
    }
    return kept_events.keep(session.project.store_folder, who.event, about)


def _fit(session: Session, value: Any) -> Any:
    """Without secrets, and without what is too long to be kept in a run."""
    if isinstance(value, str):
        return session.project.redactor.mask(value)[:_LONGEST]
    if isinstance(value, list):
        return [_fit(session, each) for each in value]
    if isinstance(value, dict):
        return {_fit(session, key): _fit(session, each) for key, each in value.items()}
    return value


def take_in(session: Session, play: Play, *, rest: bool = False) -> None:
    """What was kept before this event, of this session and of those that are over, each once and in order; or the
    ``rest`` of it."""
    project, own = session.project, (session.who, session.branch, session.project.at)
    patience = project.store.patience
    project.store.patience = min(patience, _PATIENCE_S)
    try:
        with kept_events.Kept(project.store_folder, _PATIENCE_S, project.say) as kept:
            for name, about in kept.of(session.who.session, project.folder, "" if rest else session.way.name):
                try:
                    _become(session, name, about)
                    play(session, about["data"])
                except StoreUnavailable:
                    raise
                except (
                    Corrupt,
                    Unsupported,
                ) as error:  # it waits for a repair, or for a newer version of leftoff
                    project.say(f"{name}: {error.message} It is kept until then.")
                    continue
                except Exception as error:  # what cannot be told now never will be
                    project.say(f"{name}: {error}")
                kept.forget(name)
        project.store.patience = patience
    finally:
        session.who, session.branch, project.at = own


def _become(session: Session, name: str, about: dict[str, Any]) -> None:
    process = Process(*about["process"]) if about["process"] is not None else None
    session.who = Who(about["session"], about["agent"], process, about["run"], event=name, again=True)
    session.branch, session.project.at = about["branch"], about["at"]
