"""The scenes. Each returns what it measured of one player, as values for JSON.

A step counts as acknowledged as soon as the tool has called the next one: from then on the tool acts as if the step
was done. The log is outside of the tool's reach, so this is the same for every tool.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bench.compare.job import KEYS, Job
from bench.compare.processes import (
    Entry,
    Player,
    PlayerFailed,
    Process,
    call,
    found,
    freeze,
    report,
    served,
    thaw,
)
from bench.places import allocated
from tests.crash import mounts

Facts = dict[str, Any]
IMAGE = 96 << 20
SERVED = 1_000  # finished steps at most for a player with a server: more would take longer than all the rest
PAUSE = 0.02  # seconds that a step takes before a kill or a power cut


@dataclass(frozen=True)
class Sizes:
    """How much of everything; a player with a server gets the smaller numbers of kills, cuts and damaged copies."""

    kills: tuple[int, int]
    pipeline: int  # steps of a pipeline that is killed
    cuts: tuple[int, int]
    steps: int  # in the growth scene
    finished: tuple[int, ...]  # steps before a resume
    rounds: int  # of each resume
    damaged: int  # steps in a store that is damaged
    copies: tuple[int, int]  # of that store, each with one damaged byte


FULL = Sizes((20, 5), 100, (8, 4), 1_000, (1_000, 10_000), 3, 200, (60, 12))
QUICK = Sizes((2, 1), 20, (1, 1), 50, (100,), 1, 40, (10, 2))


def pick(player: Player, sizes: tuple[int, int]) -> int:
    return sizes[player.server]


@contextmanager
def fresh(folder: Path, name: str) -> Iterator[Job]:
    """Yield a job with an empty folder."""
    place = folder / name
    (place / "store").mkdir(parents=True)
    try:
        yield Job(str(place / "store"), str(place / "log"))
    finally:
        shutil.rmtree(place)


def kill(player: Player, folder: Path, sizes: Sizes) -> Facts:
    """Kill the driver at random moments and start it again until the pipeline is finished, as often as needed."""
    chance = random.Random(7)
    total: Facts = dict.fromkeys(("kills", "steps", "lost", "recorded_again", "cut_off_again"), 0)
    first_step: list[float] = []
    number, began = 0, time.monotonic()
    while total["kills"] < pick(player, sizes.kills):
        number += 1
        with (
            fresh(folder, f"kill-{number}") as plain,
            served(player, replace(plain, count=sizes.pipeline, pause=PAUSE)) as (job, _),
        ):
            starts = []
            while True:
                process = Process(player, "drive", job)
                starts.append(process.began)
                try:
                    if not process.until_step() or total["kills"] == pick(player, sizes.kills):
                        process.wait()
                        break
                    time.sleep(chance.uniform(0, 0.4))
                finally:
                    alive = process.kill()
                total["kills"] += alive
                if not alive:
                    process.wait()
                    break
            for key, value in judge(process.log()).items():
                total[key] += value
            for start in starts[1:]:
                begun = [e.at for e in process.log() if e.word == "begin" and e.at > start]
                first_step += begun[:1] and [begun[0] - start]
    total["seconds"] = round(time.monotonic() - began, 1)
    total["restart_seconds"] = round(statistics.median(first_step), 2) if first_step else None
    return total


def judge(log: list[Entry]) -> Facts:
    """Count what happened to steps whose process was killed.

    `lost`: acknowledged steps that ran again. `recorded_again`: steps that the store listed as finished at a restart
    and that ran again. `cut_off_again`: the step that a kill interrupted, which every tool has to run again.
    """
    counted = dict.fromkeys(("steps", "lost", "recorded_again", "cut_off_again"), 0)
    begun = acknowledged = recorded = -1
    for entry in log:
        if entry.word == "found":
            recorded, acknowledged = entry.number, max(acknowledged, begun - 1)
        elif entry.word == "begin":
            counted["lost"] += entry.number <= acknowledged
            counted["recorded_again"] += entry.number < recorded
            counted["cut_off_again"] += entry.number == begun and entry.number > acknowledged
            counted["steps"] += entry.number > begun
            begun = max(begun, entry.number)
        elif entry.word == "finished" and begun != entry.number - 1:
            raise PlayerFailed(f"it finished after step {begun} of {entry.number}")
    if not log or log[-1].word != "finished":
        raise PlayerFailed("it did not finish")
    return counted


def power(player: Player, folder: Path, sizes: Sizes) -> Facts:
    """Stop everything at random moments and look at what the disk would hold after a power cut.

    The disk is an ext4 in a file. A copy of the file has everything that was synced, and nothing that only the kernel's
    memory holds.
    """
    if os.geteuid() != 0:
        return {"missing": "not measured here: mounting a disk image needs root"}
    chance = random.Random(11)
    place = folder / "power"
    place.mkdir()
    image = place / "disk.img"
    mounts.make_image(image, IMAGE)
    losses: list[int] = []
    unreadable = 0
    with mounts.ext4(image, place / "disk") as disk:
        (disk / "store").mkdir()
        os.sync()
        plain = Job(str(disk / "store"), str(place / "log"), count=1_000_000, pause=PAUSE)
        with served(player, plain) as (job, server):
            process = Process(player, "drive", job)
            try:
                for _ in range(pick(player, sizes.cuts)):
                    so_far = max((e.number for e in process.log() if e.word == "begin"), default=-1)
                    if not process.until_step(so_far + chance.randint(1, 30)):
                        raise PlayerFailed(f"it ended: {process.said()}")
                    time.sleep(chance.uniform(0, 0.01))
                    pids = [process.pid] + ([server] if server else [])
                    for pid in pids:
                        freeze(pid)
                    begun = max(e.number for e in process.log() if e.word == "begin")
                    shutil.copyfile(image, place / "cut.img")
                    for pid in pids:
                        thaw(pid)
                    try:
                        losses.append(max(0, begun - survived(player, place)))
                    except PlayerFailed as failure:
                        print(f"{player.title} after a power cut: {failure}", file=sys.stderr)
                        unreadable += 1
                        losses.append(begun)
            finally:
                process.kill()
    shutil.rmtree(place)
    return {
        "cuts": len(losses),
        "cuts_with_loss": sum(loss > 0 for loss in losses),
        "lost": sum(losses),
        "most_lost": max(losses),
        "unreadable": unreadable,
    }


def survived(player: Player, place: Path) -> int:
    """The steps that are recorded on the disk as it was at the cut."""
    point = place / "after"
    try:
        with mounts.ext4(place / "cut.img", point) as disk:
            copy = Job(str(disk / "store"), str(place / "after.log"))
            with served(player, copy) as (job, _):
                return found(player, job)
    finally:
        point.rmdir()


def growth(player: Player, folder: Path, sizes: Sizes) -> Facts:
    """Steps that each change one of the hundred keys of a state of 100 KB."""
    with fresh(folder, "growth") as plain:
        with served(player, replace(plain, count=sizes.steps)) as (job, _):
            began = time.monotonic()
            call(player, "grow", job)
            seconds = time.monotonic() - began
        return {
            "steps": sizes.steps,
            "keys": KEYS,
            "bytes": allocated(plain.place),
            "seconds": round(seconds, 1),
        }


def seeded(player: Player, job: Job, count: int) -> None:
    """Make a store with `count` finished steps and one interrupted step."""
    with served(player, replace(job, count=count + 2, hang=count)) as (asked, _):
        process = Process(player, "drive", asked)
        try:
            if not process.until_step(count):
                raise PlayerFailed(f"it ended: {process.said()}")
            settle(job.place)
        finally:
            process.kill()


def settle(folder: Path) -> None:
    """Wait until nothing writes any more: LangGraph's default saves in the background."""
    end = time.monotonic() + 15
    before: list[tuple[int, int]] = []
    while time.monotonic() < end:
        now = [(file.stat().st_size, file.stat().st_mtime_ns) for file in folder.rglob("*") if file.is_file()]
        if now == before:
            return
        before = now
        time.sleep(0.7)


def resumed(player: Player, job: Job, count: int) -> float:
    """Seconds from the start of a process to the first step that had never begun before."""
    with served(player, replace(job, count=count + 2)) as (asked, _):
        process = Process(player, "drive", asked)
        try:
            if not process.until_step(count + 1):
                raise PlayerFailed(f"it ended: {process.said()}")
            mine = [entry for entry in process.log() if entry.word == "begin" and entry.at > process.began]
            if mine[0].number < count:
                raise PlayerFailed(f"step {mine[0].number} was finished and ran again")
            return next(entry.at for entry in mine if entry.number == count + 1) - process.began
        finally:
            process.kill()


def recovery(players: list[Player], ram: Path, disk: Path, sizes: Sizes) -> dict[str, Facts]:
    """Measure the time to resume in turns, and whether a changed output is noticed."""
    result: dict[str, Facts] = {player.name: {} for player in players}

    def attempt(player: Player, work: Callable[[], None]) -> None:
        if "failed" not in result[player.name]:
            try:
                work()
            except Exception:
                print(f"{player.title} failed\n{traceback.format_exc()}", file=sys.stderr, flush=True)
                result[player.name]["failed"] = True

    def seed(player: Player, count: int) -> None:
        (ram / player.name / "store").mkdir(parents=True)
        seeded(player, Job(str(ram / player.name / "store"), str(ram / player.name / "log")), count)

    def resume(player: Player, count: int) -> None:
        copy = disk / f"{player.name}-{count}"
        shutil.copytree(ram / player.name, copy)
        os.sync()
        seconds = resumed(player, Job(str(copy / "store"), str(copy / "log")), count)
        shutil.rmtree(copy)
        result[player.name].setdefault(f"all_seconds_{count}", []).append(round(seconds, 2))

    def edit(player: Player) -> None:
        result[player.name].update(outputs(player, disk))

    for count in sizes.finished:
        playing = [player for player in players if not player.server or count <= SERVED]
        for player in playing:
            attempt(player, partial(seed, player, count))
        for turn in range(sizes.rounds):
            for player in playing if turn % 2 == 0 else reversed(playing):
                attempt(player, partial(resume, player, count))
        for player in playing:
            shutil.rmtree(ram / player.name)
            if times := result[player.name].get(f"all_seconds_{count}"):
                result[player.name][f"seconds_{count}"] = statistics.median(times)
    for player in players:
        attempt(player, partial(edit, player))
    return result


def outputs(player: Player, folder: Path) -> Facts:
    """Delete the output of a finished step, and in another run change one, then resume."""
    deleted, stopped = resumed_with(player, folder, lambda output: output.unlink())
    changed, _ = resumed_with(player, folder, lambda output: output.write_text("changed by hand"))
    return {
        "deleted_output_noticed": deleted,
        "changed_output_noticed": changed,
        "stopped_for_deleted": stopped,
    }


def resumed_with(player: Player, folder: Path, edit: Callable[[Path], object]) -> tuple[bool, bool]:
    """Whether a resume names the edited output or makes it again, and whether it stops."""
    with (
        fresh(folder, "outputs") as plain,
        served(player, replace(plain, count=6, hang=4, files=True, pause=PAUSE)) as (job, _),
    ):
        process = Process(player, "drive", job)
        try:
            process.until_step(4)
            settle(job.place)
        finally:
            process.kill()
        edit(job.output(2))
        process = Process(player, "drive", replace(job, hang=-1))
        try:
            process.wait()
            stopped = False
        except PlayerFailed:
            stopped = True
        again = {e.number for e in process.log() if e.word == "begin" and e.at > process.began}
        return job.output(2).name in process.said() or 2 in again, stopped


def damage(player: Player, folder: Path, sizes: Sizes) -> Facts:
    """Damage one byte per copy of a store, and read all results with the tool's own API."""
    chance = random.Random(13)
    counted = dict.fromkeys(("copies", "noticed", "wrong", "incomplete", "no_effect"), 0)
    with fresh(folder, "damage") as plain:
        with served(player, replace(plain, count=sizes.damaged, results=True)) as (job, _):
            call(player, "drive", job)
        copies = plain.place.parent / "copies"
        for number in range(pick(player, sizes.copies)):
            shutil.copytree(plain.place, copies / f"{number:03}")
            flip(copies / f"{number:03}", chance)
        outcomes = []
        if not player.server:
            outcomes = report(
                player, "damage", replace(plain, folder=str(copies), count=sizes.damaged, results=True)
            )
        else:
            for copy in sorted(copies.iterdir()):
                alone = copies.parent / "alone"
                alone.mkdir(exist_ok=True)
                copy.rename(alone / "store")
                outcomes.append(
                    damaged_server(
                        player, replace(plain, folder=str(alone), count=sizes.damaged, results=True)
                    )
                )
                shutil.rmtree(alone)
    names = {"same": "no_effect", "error": "noticed", "missing": "incomplete"}
    for outcome in outcomes:
        word = outcome.split()[0]
        counted["copies"] += 1
        counted[names.get(word, word)] += 1
    return counted


def damaged_server(player: Player, job: Job) -> str:
    """The outcome with a server that is started on a damaged copy."""
    try:
        with served(player, replace(job, folder=f"{job.folder}/store")) as (asked, _):
            outcome: list[str] = report(player, "damage", replace(asked, folder=job.folder))
            return outcome[0]
    except PlayerFailed:
        return "error server"


def flip(store: Path, chance: random.Random) -> None:
    """Change one byte of the store's files, at a place chosen evenly among all their bytes."""
    files = sorted(file for file in store.rglob("*") if file.is_file() and file.stat().st_size)
    at = chance.randrange(sum(file.stat().st_size for file in files))
    for file in files:
        if at < file.stat().st_size:
            with file.open("r+b") as handle:
                handle.seek(at)
                old = handle.read(1)[0]
                handle.seek(at)
                handle.write(bytes([old ^ (1 << chance.randrange(8))]))
            return
        at -= file.stat().st_size
