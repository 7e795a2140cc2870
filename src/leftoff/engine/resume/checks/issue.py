"""The issue that a run works on, compared with the snapshot that the run has of it."""

from __future__ import annotations

from leftoff.engine.resume.finding import Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from leftoff.engine.resume.checks.world import World


def issue(world: World) -> Iterator[Finding]:
    number = world.facts.get("issue")
    if number is None:
        return
    from leftoff.engine.workspace.issues import KEY, Issues, Offline, snapshot

    then = world.said(KEY)  # ours, or the one of the document that the run came from
    if not isinstance(then, dict):
        return
    issues = world.settings.parsed("issues", Issues)
    if not issues.known:
        return
    name = f"#{number}"
    try:
        now = snapshot(issues.fetch(world.project, str(number)), None, world.now)
    except Offline as error:
        yield Finding(
            "issue.offline",
            f"Issue {name} could not be looked at: {error}.",
            "What changed there is not known.",
            name,
        )
        return
    yield from _compare(world, name, then, now)


def _compare(world: World, name: str, then: dict[str, Any], now: dict[str, Any]) -> Iterator[Finding]:
    if now["state"] == "closed" and str(then.get("state") or "open").lower() != "closed":
        yield Finding(
            "issue.closed", f"Issue {name} was closed.", "--accept issue.closed goes on all the same.", name
        )
    before = then.get("body") or ""
    if (
        "body" in then and isinstance(before, str) and before != now["body"]
    ):  # one with a secret in it was not kept
        from leftoff.engine.workspace.differences import unified

        diff = world.settings.redactor().mask(unified(before, now["body"], f"{name} (then)", f"{name} (now)"))
        hint = "Does it still ask for the same? --accept issue.body goes on."
        yield Finding("issue.body", f"The text of issue {name} was modified.", hint, name, diff=diff)
    if isinstance(then.get("labels"), list) and sorted(map(str, then["labels"])) != now["labels"]:
        added = [label for label in now["labels"] if label not in then["labels"]]
        gone = [str(label) for label in then["labels"] if label not in now["labels"]]
        told = "; ".join(
            f"{word} {', '.join(some)}" for word, some in (("new:", added), ("gone:", gone)) if some
        )
        yield Finding(
            "issue.labels", f"The labels of issue {name} changed: {told}.", "Resuming takes them over.", name
        )
