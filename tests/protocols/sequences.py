"""Random sequences of verbs in a project that follows a protocol, while its files are changed, broken and taken away.

A ``Game`` plays one, from a seed. After each verb it looks at what must hold whatever happened: the exit code is one of
the contract and the work's own failure is none of them, no error of ours reaches anybody, a run that is not the
protocol's has every variable that was acknowledged, and what a person wrote is still somewhere.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.command import Called, call
from tests.protocols.test_company import OWN, PLACES
from tests.protocols.test_mutations import ODD, flipped

CODES = (0, 2, 3, 4, 5, 6, 7, 8)
OURS = re.compile(r"Traceback|\b[A-Z][A-Za-z]+(Error|Exception|Warning|Iteration): ")
STEPS = ("a", "b", "x", "enrich", "implementing/batch-1/t", "REQUIREMENTS", "IMPLEMENTATION/t", "REFLECTION")
OTHERS = ("rel-1", "rel-2")
WORDS = """
show {run} --json|show {run}@1|show {run}~1|log {run}|brief {run}|next --run {run}|verify {run}|diff {run}
status|ls --all|resume --list|protocols|fsck|export {run} -o out.leftoff|import .|import . --dry-run
resume {run} --yes|resume --yes|step start {step} --run {run}|step done {step} --run {run}
step done {step} --run {run} --output made|beat --run {run}|step fail {step} --run {run} --error e
step block {step} --run {run} --error e|step skip {step} --run {run}|approve {run}|save --run {run}
save --run {run} --trigger batch_complete|note --run {run} hello|beat|put message m1 true --run {run}
put conflict c1 {{}} --run {run}|put criterion done false --run {run}|artifact made --run {run}
track made --run {run}|unblock {run}|pause --run {run}|finish --run {run}|finish --run {run} --status failed
finish --run {run} --status abandoned|resume {run} --dry-run|rollback {run}~1 --yes|fork {run}|archive {run}
rm {run} --yes|undelete {run}|prune|prune --dry-run|start release|start session --session s1"""
VERBS = WORDS.strip().replace("\n", "|").split("|")


@contextmanager
def like_anybody() -> Iterator[None]:
    """For a while, what takes nothing takes nothing from root either."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, now = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if os.geteuid() != 0 or libc.capget(header, now) != 0:
        yield
        return
    less = (ctypes.c_uint32 * 6)(*now)
    less[0] &= ~0b110  # effective: to write, and to read, what is not allowed
    assert 0 == libc.capset(header, less)
    try:
        yield
    finally:
        assert 0 == libc.capset(header, now)


class Game:
    """One sequence in a folder of its own."""

    def __init__(self, project: Path, protocol: str, seed: int) -> None:
        self.project, self.protocol = project, protocol
        self.chance = random.Random(f"{protocol} {seed}")
        self.told: list[str] = []
        self.known: dict[str, dict[str, int]] = {run: {} for run in OTHERS}
        self.number = 0

    def play(self, moves: int) -> None:
        self.project.mkdir(parents=True, exist_ok=True)
        (self.project / "made").write_text("made")
        self.verb("init", "--protocol", self.protocol)
        self.verb(*OWN[self.protocol][0])
        for run in OTHERS:
            assert 0 == self.verb("start", "release", "--run-id", run).code, self.told
        for _ in range(moves):
            self.chance.choice((self.report, self.report, self.set, self.set, self.write, self.damage))()
        self.clear_the_way()
        for run in OTHERS:
            self.look_at(run)
        assert 0 == self.verb("fsck").code, "\n".join(self.told)

    # -- verbs

    def verb(self, *words: str) -> Called:
        with like_anybody():
            done = call(*words, cwd=self.project)
        self.told.append(f"$ {' '.join(words)} -> {done.code} {done.err.strip()[:300]}")
        assert done.code in CODES, "\n".join([*self.told, done.out, done.err])
        assert not OURS.search(done.err), "\n".join(self.told)
        return done

    def runs(self) -> list[str]:
        return [run["run_id"] for run in self.verb("ls", "--all", "--json").json["runs"]]

    def report(self) -> None:
        words = self.chance.choice(VERBS)
        run, step = self.chance.choice([*self.runs(), "nothing"]), self.chance.choice(STEPS)
        if run in self.known and words.startswith(("rm", "rollback", "archive", "import")):
            return  # what it has is to be there at the end
        self.verb(*words.format(run=run, step=step).split())

    def write(self) -> None:
        """The protocol's own work goes on, or begins again."""
        words, step = OWN[self.protocol]
        self.verb(*self.chance.choice(((*words, "--resume"), words, ("step", "done", step), ("save",))))

    def set(self) -> None:
        """A value in one of the other runs, that must be there until the end; and one in any run."""
        self.number += 1
        run = self.chance.choice(OTHERS)
        if 0 == self.verb("set", f"v{self.number}={self.number}", "--run", run).code:
            self.known[run][f"v{self.number}"] = self.number
        self.verb("set", f"w={self.number}", "--run", self.chance.choice(self.runs()))

    def look_at(self, run: str) -> None:
        found = self.verb("show", run, "--json")
        assert 0 == found.code, "\n".join(self.told)
        have = found.json["variables"]
        lost = {key: value for key, value in self.known[run].items() if have.get(key) != value}
        assert {} == lost, "\n".join([f"{run} lost {lost}", *self.told])

    # -- what others do to the files

    def files(self) -> list[Path]:
        root = self.project / PLACES[self.protocol].partition("/")[0]
        return sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())

    def damage(self) -> None:
        moves = (self.edit, self.edit, self.edit, self.take_away, self.copy, self.block, self.forget)
        self.chance.choice(moves)()

    def edit(self) -> None:
        """Something in a file is changed; what nobody can read is somewhere all the same. What the other runs have is
        to be there at the end, so nobody takes it from their files."""
        files = [path for path in self.files() if not any(run in str(path) for run in OTHERS)]
        files = [path for path in files if path.suffix != ".edited"]
        if not files:
            return
        path = self.chance.choice(files)
        new = self.mutated(path)
        self.told.append(f"  edit {path.relative_to(self.project)}")
        self.put(path, new)
        self.verb("show", self.chance.choice(OTHERS))
        self.verb("set", "w=0", "--run", self.chance.choice(self.runs()))
        if path.suffix == ".json" and not _is_json(new):
            there = [path] if path.exists() else []
            kept = [each.read_bytes() for each in (*there, *self.project.rglob("*.edited"))]
            assert new in kept, "\n".join([f"{path} is lost", *self.told])

    def mutated(self, path: Path) -> bytes:
        data = path.read_bytes()
        way = self.chance.randrange(5)
        if way == 0 or not data:
            return data[: self.chance.randrange(len(data) + 1)]
        if way == 1:
            return flipped(data, self.chance)
        try:
            document = json.loads(data)
        except ValueError:
            return data.replace(b"1", b"2", 1) if way == 2 else data + b"\nmore: [1]\n"
        key = self.chance.choice(sorted(document)) if isinstance(document, dict) and document else None
        if key is None or way == 2:
            return data + b"\n"
        document[key] = self.chance.choice(ODD)
        if way == 4:
            del document[key]
        return json.dumps(document).encode()

    def put(self, path: Path, data: bytes) -> None:
        mode = path.stat().st_mode
        path.chmod(0o600)
        path.write_bytes(data)
        path.chmod(self.chance.choice((mode, 0o644, 0o400)))

    def take_away(self) -> None:
        for path in self.chance.sample(files, 1) if (files := self.files()) else ():
            self.told.append(f"  delete {path.relative_to(self.project)}")
            path.unlink()

    def copy(self) -> None:
        for path in self.chance.sample(files, 1) if (files := self.files()) else ():
            to = path.with_name(f"{path.stem}-copy{path.suffix}")
            self.told.append(f"  copy {path.relative_to(self.project)}")
            self.chance.choice((shutil.copy, shutil.move))(path, to)

    def block(self) -> None:
        """Something is in the way: a folder that takes nothing, a file or a link where a folder belongs; or not."""
        self.clear_the_way()
        place = self.project / PLACES[self.protocol]
        kind = self.chance.choice(("unwritable", "unwritable", "file", "link", "nothing"))
        self.told.append(f"  {kind} in the way")
        if kind == "unwritable" and place.is_dir():
            for folder in (place, *(path for path in place.rglob("*") if path.is_dir())):
                folder.chmod(0o500)
        elif kind in ("file", "link"):
            if place.is_symlink() or place.exists():
                aside = place.with_name(f"{place.name}-aside-{self.number}")
                place.rename(aside)
            place.parent.mkdir(parents=True, exist_ok=True)
            if kind == "file":
                place.write_text("in the way")
            else:
                place.symlink_to("nowhere")

    def clear_the_way(self) -> None:
        place = self.project / PLACES[self.protocol]
        if place.is_symlink() or place.is_file():
            place.unlink()
        for folder in (place, *place.rglob("*")) if place.is_dir() else ():
            if folder.is_dir() and not folder.is_symlink():
                folder.chmod(0o700)

    def forget(self) -> None:
        """What the sync remembers is lost, or of no use."""
        self.told.append("  the sync's memory is lost")
        shutil.rmtree(self.project / ".leftoff/sync", ignore_errors=True)


def _is_json(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data), dict)
    except ValueError:
        return False
