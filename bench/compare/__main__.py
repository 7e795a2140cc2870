"""`python -m bench.compare [--quick] [--scene NAME …] [--player NAME …]`: play all scenes with all players.

A whole run writes `bench/results/compare.json` and the tables in the documentation. With any of the options the result
goes to a temporary file, because it would replace measured figures with partial ones.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench import places
from bench.compare import pages, scenes
from bench.compare.job import Job
from bench.compare.processes import PLAYERS, ROOT, Player, report

SCENES = ("kill", "power", "damage", "growth", "recovery")
AT_ONCE = 2  # players, in scenes whose figures are counts


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.compare", description="leftoff and its peers, crashed"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, less than two minutes")
    parser.add_argument("--scene", action="append", choices=SCENES)
    parser.add_argument("--player", action="append", choices=[player.name for player in PLAYERS])
    return parser.parse_args(argv)


def git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()


def guarded(player: Player, play: Callable[[], scenes.Facts]) -> scenes.Facts:
    """What a scene measured; a failure is reported and fails the command."""
    if missing := player.missing():
        return {"missing": missing}
    try:
        return play()
    except Exception:
        print(f"{player.title} failed\n{traceback.format_exc()}", file=sys.stderr, flush=True)
        return {"failed": True}


def play(scene: str, players: list[Player], folder: Path, ram: Path, sizes: scenes.Sizes) -> dict[str, Any]:
    """One scene with every player."""
    if scene == "recovery":
        return recovery(players, folder, ram, sizes)
    function: Callable[[Player, Path, scenes.Sizes], scenes.Facts] = getattr(scenes, scene)
    where = ram if scene in ("growth", "damage") else folder

    def one(player: Player) -> scenes.Facts:
        own = where / f"{scene}-{player.name}"
        own.mkdir()
        return guarded(player, lambda: function(player, own, sizes))

    with ThreadPoolExecutor(1 if scene == "growth" else AT_ONCE) as pool:
        return dict(zip([player.name for player in players], pool.map(one, players), strict=True))


def recovery(players: list[Player], folder: Path, ram: Path, sizes: scenes.Sizes) -> dict[str, Any]:
    """All players in turns; a player that cannot play has its reason."""
    absent = {player.name: {"missing": player.missing()} for player in players if player.missing()}
    playing = [player for player in players if player.name not in absent]
    return {**absent, **scenes.recovery(playing, ram, folder, sizes)}


def versions(players: list[Player], folder: Path) -> dict[str, Any]:
    """What each player runs on."""
    job = Job(str(folder), str(folder / "versions"))
    return {player.name: report(player, "versions", job) for player in players if not player.missing()}


def main(argv: list[str]) -> int:
    options = arguments(argv)
    players = [player for player in PLAYERS if not options.player or player.name in options.player]
    sizes = scenes.QUICK if options.quick else scenes.FULL
    places.require(places.DISK, places.RAM)
    began = time.monotonic()
    dirty = "+changes" if git("status", "--porcelain", "src", "bench/compare") else ""
    document: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": git("rev-parse", "--short=12", "HEAD") + dirty,
        "quick": options.quick,
        "machine": {
            "cores": os.cpu_count(),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "filesystem": places.filesystem(places.DISK),
        },
        "grown": sizes.steps,
        "finished": sizes.finished,
        "scenes": {},
    }
    with (
        tempfile.TemporaryDirectory(prefix="compare-", dir=places.DISK) as folder,
        tempfile.TemporaryDirectory(prefix="compare-", dir=places.RAM) as ram,
    ):
        document["versions"] = versions(players, Path(folder))
        for scene in options.scene or SCENES:
            at = time.monotonic()
            document["scenes"][scene] = play(scene, players, Path(folder), Path(ram), sizes)
            print(f"{scene} ({time.monotonic() - at:.0f} s)", flush=True)
            for name, facts in document["scenes"][scene].items():
                print(f"  {name:<18} {json.dumps(facts)}", flush=True)
    document["seconds"] = round(time.monotonic() - began)
    whole = not (options.quick or options.scene or options.player)
    failed = any("failed" in facts for scene in document["scenes"].values() for facts in scene.values())
    keep(document, whole and not failed)
    return 2 if failed else 0


def keep(document: dict[str, Any], whole: bool) -> None:
    """Write the results: of a whole run into the repository, of any other into a temporary file."""
    text = json.dumps(document, indent=1) + "\n"
    if not whole:
        with tempfile.NamedTemporaryFile("w", prefix="compare-", suffix=".json", delete=False) as file:
            file.write(text)
        print(pages.table(document, pages.columns(document)))
        print(f"not a whole run, so the documentation is unchanged; results: {file.name}")
        return
    pages.RESULTS.parent.mkdir(exist_ok=True)
    pages.RESULTS.write_text(text)
    for path in [pages.RESULTS, *pages.write(document)]:
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
