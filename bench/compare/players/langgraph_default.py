"""LangGraph with SqliteSaver: a graph whose only node loops, with the default durability ("async")."""

from __future__ import annotations

import sqlite3
from importlib.metadata import version
from typing import Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from bench.compare.job import Job, change, state

CONFIG: dict[str, Any] = {"configurable": {"thread_id": "pipeline"}}
OPTIONS: dict[str, str] = {}


def versions() -> dict[str, str]:
    return {name: version(name) for name in ("langgraph", "langgraph-checkpoint-sqlite")}



class State(TypedDict):
    """The channels of the pipeline."""

    done: int
    last: str


class Document(TypedDict):
    """The channels of the growth scene."""

    done: int
    state: dict[str, str]


def compiled(job: Job, kind: Any, node: Any) -> Any:
    """The loop over `job.count` steps, with the saver that `SqliteSaver.from_conn_string` makes."""
    graph = StateGraph(kind)
    graph.add_node("work", node)
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", lambda now: END if now["done"] >= job.count else "work")
    db = sqlite3.connect(job.place / "checkpoints.db", check_same_thread=False)
    return graph.compile(checkpointer=SqliteSaver(db))


def pipeline(job: Job) -> Any:
    return compiled(job, State, lambda now: {"done": now["done"] + 1, "last": job.step(now["done"])})


def invoke(graph: Any, job: Job, first: dict[str, Any]) -> None:
    """Start the thread, or continue it from its last checkpoint."""
    config = {**CONFIG, "recursion_limit": job.count + 10}
    given = None if graph.get_state(CONFIG).created_at else first
    graph.invoke(given, config, **OPTIONS)


def drive(job: Job) -> None:
    graph = pipeline(job)
    job.say("found", finished(graph))
    invoke(graph, job, {"done": 0, "last": ""})
    job.say("finished", job.count)


def finished(graph: Any) -> int:
    """The steps of the last checkpoint, and the one after it if its result is saved."""
    now = graph.get_state(CONFIG)
    saved = any(task.result is not None for task in now.tasks if task.name == "work")
    return int(now.values.get("done", 0)) + saved


def found(job: Job) -> int:
    return finished(pipeline(job))


def grow(job: Job) -> None:
    def node(now: Document) -> dict[str, Any]:
        key, text = change(now["done"])
        return {"done": now["done"] + 1, "state": {**now["state"], key: text}}

    invoke(compiled(job, Document, node), job, {"done": 0, "state": state()})


def read(job: Job) -> list[str]:
    results = [
        old.values["last"] for old in pipeline(job).get_state_history(CONFIG) if old.values.get("done", 0) > 0
    ]
    return results[::-1]
