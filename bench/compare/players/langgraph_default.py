"""LangGraph with SqliteSaver: a graph whose only node loops, with the default durability ("async")."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
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


@contextmanager
def compiled(job: Job, kind: Any, node: Any) -> Iterator[Any]:
    """A graph that loops over `job.count` steps."""
    graph = StateGraph(kind)
    graph.add_node("work", node)
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", lambda now: END if now["done"] >= job.count else "work")
    with SqliteSaver.from_conn_string(f"{job.folder}/checkpoints.db") as saver:
        yield graph.compile(checkpointer=saver)


def pipeline(job: Job) -> AbstractContextManager[Any]:
    return compiled(job, State, lambda now: {"done": now["done"] + 1, "last": job.step(now["done"])})


def invoke(graph: Any, job: Job, first: dict[str, Any]) -> None:
    """Start the thread, or continue it from its last checkpoint."""
    config = {**CONFIG, "recursion_limit": job.count + 10}
    given = None if graph.get_state(CONFIG).created_at else first
    graph.invoke(given, config, **OPTIONS)


def drive(job: Job) -> None:
    with pipeline(job) as graph:
        job.say("found", finished(graph))
        invoke(graph, job, {"done": 0, "last": ""})
    job.say("finished", job.count)


def finished(graph: Any) -> int:
    """The steps of the last checkpoint; results that are saved and not in a checkpoint yet count too."""
    return int(graph.get_state(CONFIG).values.get("done", 0))


def found(job: Job) -> int:
    with pipeline(job) as graph:
        return finished(graph)


def grow(job: Job) -> None:
    """Each key of the state is a channel, so that a step writes only the one that it changes."""
    channels = TypedDict("channels", {"done": int, **dict.fromkeys(state(), str)})  # type: ignore[misc]

    def node(now: Any) -> dict[str, Any]:
        key, text = change(now["done"])
        return {"done": now["done"] + 1, key: text}

    with compiled(job, channels, node) as graph:
        invoke(graph, job, {"done": 0, **state()})


def read(job: Job) -> list[str]:
    with pipeline(job) as graph:
        past = list(graph.get_state_history(CONFIG))
    return [old.values["last"] for old in reversed(past) if old.values.get("done", 0) > 0]
