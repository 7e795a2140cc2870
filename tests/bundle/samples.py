"""Runs to export."""

from __future__ import annotations

import random
from pathlib import Path

import leftoff
from leftoff.engine.export import export_run
from leftoff.store.sqlite import SqliteStore


def make_run(folder: Path) -> str:
    """A run with something of everything: steps in two levels, large values, secrets, files, notes, deletions."""
    with leftoff.open(folder / ".leftoff") as store:
        with store.run("convert", title="Nature trail", steps=["a", "b", "c/x", "c/y"]) as run:
            for number, name in enumerate(["a", "b", "c/x", "c/y"]):
                with run.step(name):
                    run.variables["list"] = [{"n": i} for i in range(500 * (4 - number))]
                    run.variables["dict"] = {f"key {i}": "x" * i for i in range(100 + number)}
                    run.variables["huge"] = "y" * (2_000_000 + number)
                    run.variables["password"] = "hunter2" * 5
                    page = folder / f"page-{number}.txt"
                    page.write_text("word " * 100_000 + name)
                    run.artifact(page)
                    run.note(f"step {name}")
            del run.variables["dict"]
            run.checkpoint("manual", "a note, with ümlauts")
            run.put("knowledge", "K/1", {"text": "unsealed"})
            run.commit()
        return run.id


def write_bundle(folder: Path, run_id: str, path: Path) -> None:
    """Export a run to a file."""
    store = SqliteStore(str(folder / ".leftoff"))
    try:
        row = store.read(lambda view: view.find_run(run_id))
        assert row is not None
        export_run(store, row, str(path))
    finally:
        store.close()


def random_run(folder: Path, seed: int) -> str:
    """A run whose history was chosen by dice: puts, deletions, steps, rollbacks, prunes, an alias."""
    dice = random.Random(seed)
    with leftoff.open(folder / ".leftoff") as store:
        run = store.start("dice")
        for turn in range(40):
            _turn(run, dice, turn)
            if dice.random() < 0.3:
                run.checkpoint("manual", f"turn {turn}")
            else:
                run.commit()
            if dice.random() < 0.1 and len(run.history()) > 2:
                run.rollback("~1")
            if dice.random() < 0.1:
                store.prune(run.id, [v.id for v in run.history()[2:] if v.id and dice.random() < 0.5])
        run.pause()
        return run.id


def _turn(run: leftoff.Run, dice: random.Random, turn: int) -> None:
    for _ in range(dice.randrange(1, 5)):
        name = f"v{dice.randrange(6)}"
        what = dice.randrange(6)
        if what == 0 and name in run.variables:
            del run.variables[name]
        elif what == 1:
            run.variables[name] = [dice.choice("abc") * 100 for _ in range(dice.choice([3, 60]))]
        elif what == 2:
            run.variables[name] = {str(i): dice.choice("abc") * 100 for i in range(dice.choice([3, 60]))}
        elif what == 3:
            parts = [dice.choice("abc") for _ in range(dice.randrange(1, 4))]
            for depth in range(1, len(parts) + 1):
                about = {
                    "status": dice.choice(["pending", "completed", "failed"]),
                    "order": 9 - ord(parts[depth - 1]) % 8,
                }
                run.put("step", "/".join(parts[:depth]), about)
        elif what == 4:
            run.put("knowledge", name, {"turn": turn, "text": "x" * dice.choice([5, 5000])})
        else:
            run.append("log", {"turn": turn, "dice": dice.random()})
