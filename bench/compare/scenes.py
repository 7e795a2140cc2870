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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
DAMAGED_STEPS = 200


@dataclass(frozen=True)
class Sizes:
    """How much of everything; a player with a server gets the smaller numbers of kills, cuts and damaged copies."""

    kills: tuple[int, int]
    cuts: tuple[int, int]
    steps: int  # in the growth scene
    finished: tuple[int, ...]  # steps before a resume
    rounds: int  # of each resume
    copies: tuple[int, int]  # of a store, each with one damaged byte


FULL = Sizes((30, 6), (10, 5), 1_000, (1_000, 10_000), 3, (100, 12))
QUICK = Sizes((3, 1), (2, 1), 100, (100,), 1, (10, 2))


def pick(player: Player, sizes: tuple[int, int]) -> int:
    return sizes[player.server]


@contextmanager
def fresh(folder: Path, name: str) -> Iterator[Job]:
    """A job with an empty folder of its own."""
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
            served(player, replace(plain, count=150, pause=0.002)) as (job, _),
        ):
            starts = []
            while True:
                process = Process(player, "drive", job)
                starts.append(process.began)
                try:
                    if not process.until_step() or total["kills"] == pick(player, sizes.kills):
                        process.wait()
                        break
                    time.sleep(chance.uniform(0, 0.25))
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

    `lost`: acknowledged steps that ran again. `recorded_again`: steps that the store listed as finished at a restart and
    that ran again. `cut_off_again`: the step that was cut off by a kill, which every tool has to run again.
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

    The disk is an ext4 in a file. What was synced is in the file; what only the kernel's memory holds is not in its copy.
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
        plain = Job(str(disk / "store"), str(place / "log"), count=1_000_000, pause=0.002)
        with served(player, plain) as (job, server):
            process = Process(player, "drive", job)
            try:
                for _ in range(pick(player, sizes.cuts)):
                    so_far = max((e.number for e in process.log() if e.word == "begin"), default=-1)
                    if not process.until_step(so_far + chance.randint(1, 40)):
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
    """Leave a store with `count` finished steps behind, and one that was cut off."""
    with served(player, replace(job, count=count + 2, hang=count)) as (asked, _):
        process = Process(player, "drive", asked)
        try:
            if not process.until_step(count):
                raise PlayerFailed(f"it ended: {process.said()}")
        finally:
            process.kill()


def resumed(player: Player, job: Job, count: int) -> float:
    """Seconds from the start of a process to the first step that had never begun before."""
    with served(player, replace(job, count=count + 2)) as (asked, _):
        process = Process(player, "drive", asked)
        try:
            if not process.until_step(count + 1):
                raise PlayerFailed(f"it ended: {process.said()}")
            again = {e.number for e in process.log() if e.word == "begin" and e.at > process.began}
            if min(again) < count:
                raise PlayerFailed(f"finished steps ran again: {sorted(again)[:5]}")
            return next(e.at for e in process.log() if e.word == "begin" and e.number == count + 1) - process.began
        finally:
            process.kill()


def recovery(players: list[Player], ram: Path, disk: Path, sizes: Sizes) -> dict[str, Facts]:
    """The time to resume, taken in turns, and whether a changed output is noticed."""
    result: dict[str, Facts] = {player.name: {} for player in players}
    for count in sizes.finished:
        playing = [player for player in players if not player.server or count <= 1_000]
        taken: dict[str, list[float]] = {player.name: [] for player in playing}
        for player in playing:
            (ram / player.name / "store").mkdir(parents=True)
            seeded(player, Job(str(ram / player.name / "store"), str(ram / player.name / "log")), count)
        for turn in range(sizes.rounds):
            for player in playing if turn % 2 == 0 else reversed(playing):
                copy = disk / f"{player.name}-{count}-{turn}"
                shutil.copytree(ram / player.name, copy)
                os.sync()
                job = Job(str(copy / "store"), str(copy / "log"))
                taken[player.name].append(resumed(player, job, count))
                shutil.rmtree(copy)
        for player in playing:
            shutil.rmtree(ram / player.name)
            times = taken[player.name]
            result[player.name][f"seconds_{count}"] = round(statistics.median(times), 2)
            result[player.name][f"all_seconds_{count}"] = [round(one, 2) for one in times]
    for player in players:
        result[player.name].update(outputs(player, disk))
    return result


def outputs(player: Player, folder: Path) -> Facts:
    """Delete the output of a finished step and change another one, then resume."""
    with fresh(folder, "outputs") as plain:
        with served(player, replace(plain, count=6, hang=4, files=True)) as (job, _):
            process = Process(player, "drive", job)
            try:
                process.until_step(4)
            finally:
                process.kill()
            job.output(1).unlink()
            job.output(2).write_text("changed by hand")
            process = Process(player, "drive", replace(job, hang=-1))
            try:
                process.wait()
                ended = 0
            except PlayerFailed:
                ended = 1
            again = {e.number for e in process.log() if e.word == "begin" and e.at > process.began}
            said = process.said()
        return {
            "deleted_output_noticed": "1.txt" in said or 1 in again,
            "changed_output_noticed": "2.txt" in said or 2 in again,
            "stopped": bool(ended),
        }


def damage(player: Player, folder: Path, sizes: Sizes) -> Facts:
    """Damage one byte per copy of a store, and read all results with the tool's own API."""
    chance = random.Random(13)
    counted = dict.fromkeys(("copies", "noticed", "wrong", "missing", "no_effect"), 0)
    with fresh(folder, "damage") as plain:
        with served(player, replace(plain, count=DAMAGED_STEPS, results=True)) as (job, _):
            call(player, "drive", job)
        copies = plain.place.parent / "copies"
        for number in range(pick(player, sizes.copies)):
            shutil.copytree(plain.place, copies / f"{number:03}")
            flip(copies / f"{number:03}", chance)
        outcomes = []
        if not player.server:
            outcomes = report(player, "damage", replace(plain, folder=str(copies), count=DAMAGED_STEPS))
        else:
            for copy in sorted(copies.iterdir()):
                alone = copies.parent / "alone"
                alone.mkdir(exist_ok=True)
                copy.rename(alone / "store")
                outcomes.append(damaged_server(player, replace(plain, folder=str(alone), count=DAMAGED_STEPS)))
                shutil.rmtree(alone)
    names = {"same": "no_effect", "error": "noticed"}
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
