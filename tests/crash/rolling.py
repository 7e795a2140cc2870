"""A rollback with files that is killed: the situation, the call under strace, and what must hold afterwards."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests.cli.command import LEFTOFF, call, environment, succeed
from tests.crash import faults, strace
from tests.crash.verdict import check
from tests.workspace.trees import Tree, git, repository, tree

# What changes anything on a disk. KILL comes before the call is made.
CALLS = ["pwrite64", "write", "fsync", "fdatasync", "rename", "renameat", "unlink", "unlinkat", "mkdir", "mkdirat",
         "rmdir", "symlinkat", "fchmod", "openat"]  # fmt: skip
ROOT = Path(__file__).resolve().parents[2]

# Deliberately broken variants: each leaves out one thing that the order of writes asks for.
BROKEN = """
import sys
from leftoff.engine import restoring
if sys.argv[1] == "no-mark":
    seal = restoring.Restorer._seal
    restoring.Restorer._seal = lambda self, row, found, trigger, mark: seal(
        self, row, found, "manual" if trigger == "rollback_begin" else trigger, None)
elif sys.argv[1] == "in-place":
    def write(at, name, chunks, mode, new):
        import os
        with open(at.path, "wb") as file:
            for chunk in chunks:
                for byte in range(0, len(chunk), 1000):
                    file.write(chunk[byte:byte + 1000])
                    file.flush()
        os.link(at.name, name, src_dir_fd=at.folder, dst_dir_fd=at.folder)
    restoring.write_new = write
elif sys.argv[1] == "not-saved":
    from leftoff.engine.tracking import Found
    restoring.Restorer._before = lambda self, row, plan: Found([], [])
from leftoff.cli.dispatch import dispatch
sys.exit(dispatch(sys.argv[2:]))
"""


class Situation:
    """A project whose files changed in every way since a checkpoint; made once, and copied for each kill."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        repository(folder, clean="committed\n", **{"small": "1\n"})
        (folder / "leftoff.toml").write_text("[files]\ngit = true\n")
        (folder / ".gitignore").write_text("ignored/\n")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "settings")
        succeed("start", "flow", "--run-id", "r", cwd=folder)
        for name in ("a", "deep/er/b", "tool"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(f"first {name}\n".encode() * 500)
        (folder / "link").symlink_to("a")
        (folder / "ignored").mkdir()
        (folder / "ignored/x").write_text("not ours\n")
        for name in (
            "inside",
            "outside",
        ):  # links that a folder takes the place of: nothing behind them is touched
            (folder / name).symlink_to("ignored" if name == "inside" else folder.parent)
        succeed("save", cwd=folder)
        self.then = tree(folder)
        (folder / "a").write_bytes(b"second\n" * 800)
        (folder / "tool").chmod(0o755)
        (folder / "link").unlink()
        (folder / "link").symlink_to("tool")
        (folder / "clean").write_text("edited\n")
        shutil.rmtree(folder / "deep")
        for name in ("inside", "outside"):
            (folder / name).unlink()
            (folder / name).mkdir()
            (folder / name / "x").write_text("in a folder\n")
        (folder / "new/inner").mkdir(parents=True)
        (folder / "new/inner/file").write_text("made since\n")
        succeed("save", cwd=folder)
        (folder / "small").write_text("by hand, never recorded\n")
        self.now = tree(folder)

    def copy(self, to: Path) -> Path:
        shutil.copytree(self.folder, to, symlinks=True)
        return to

    @property
    def words(self) -> list[str]:
        """Relative on purpose: once the present is sealed, `r~1` would name another checkpoint."""
        return ["rollback", "r~1", "--files", "--yes"]


def command(broken: str) -> list[str]:
    return [sys.executable, "-c", BROKEN, broken] if broken else [str(LEFTOFF)]


def traced(folder: Path, words: list[str], log: Path, *expressions: str, broken: str = "") -> int:
    """The command under strace; its exit code, -9 where it was killed."""
    strace.require()
    tracer = ["strace", "-f", "-o", str(log)]
    for expression in expressions:
        tracer += ["-e", expression]
    env = environment(PYTHONPATH=str(ROOT / "src"))
    done = subprocess.run(
        [*tracer, *command(broken), *words], cwd=folder, env=env, capture_output=True, timeout=120
    )
    return -signal.SIGKILL if done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL) else done.returncode


def moments(situation: Situation, folder: Path) -> list[tuple[str, int]]:
    """Every call that changes something, in order, up to the commit that closes it. Then all is done."""
    work = situation.copy(folder / "count")
    log = folder / "count.log"
    assert 0 == traced(work, situation.words, log, strace.watch(CALLS))
    counts: dict[str, int] = {}
    found: list[tuple[str, int]] = []
    main = None
    for line in log.read_text(errors="replace").splitlines():
        if (match := strace.LINE.match(line)) is None:
            continue
        main = main or match[1]
        if match[1] != main:
            continue
        counts[match[2]] = counts.get(match[2], 0) + 1
        if match[2] != "openat" or "O_CREAT" in line:
            found.append((match[2], counts[match[2]]))
    shutil.rmtree(work)
    return found


def killed(situation: Situation, folder: Path, name: str, when: int, broken: str = "") -> bool:
    """Kill at one call, run again, undo: whether it was hit."""
    where = f"KILL at call {when} of {name}"
    work = situation.copy(folder / f"{name}-{when}")
    fault = strace.fault(name, "signal=KILL", when)
    code = traced(work, situation.words, folder / "strace.log", strace.watch([name]), fault, broken=broken)
    # 8: git was killed in its place, and nothing was done.
    check(code in (0, 8, -signal.SIGKILL), f"{where}: ended with {code}")
    whole(situation, tree(work), where)
    if not complete(work):
        again(work, situation.words, where, broken)
    remove_empty(work, situation.then)
    check(situation.then == tree(work), f"{where}: run again, the files are not as they were then")
    undone(situation, work, where)
    shutil.rmtree(work)
    faults.made("kills", code == -signal.SIGKILL)
    return code == -signal.SIGKILL


def remove_empty(work: Path, then: Tree) -> None:
    """Remove empty folders that were not there: a kill between a file and its folder leaves the folder."""
    for path in sorted(tree(work).keys() - then.keys(), reverse=True):
        if (work / path).is_dir() and not any((work / path).iterdir()):
            (work / path).rmdir()


def complete(work: Path) -> bool:
    """Whether the call had done all it should. If not, the version that it began with is reported."""
    newest = succeed("log", "r", "--json", cwd=work).json["checkpoints"][0]
    half = succeed("status", "--json", cwd=work).json["half_restored"]
    check(half.keys() == ({"r"} if newest["trigger"] == "rollback_begin" else set()), f"reported: {half}")
    return bool(newest["trigger"] == "rollback")


def again(work: Path, words: list[str], where: str, broken: str) -> None:
    """The same call once more."""
    env = environment(PYTHONPATH=str(ROOT / "src"))
    done = subprocess.run(
        [*command(broken), *words], cwd=work, env=env, capture_output=True, text=True, timeout=120
    )
    check(done.returncode == 0, f"{where}: run again, it ends with {done.returncode}: {done.stderr}")


def whole(situation: Situation, found: Tree, where: str) -> None:
    """Each file is the old one or the new one, never half of one."""
    for path, about in found.items():
        name = path.rpartition("/")[2]
        known = (situation.then.get(path), situation.now.get(path))
        if about[0] == "folder" or name.startswith(".leftoff-"):
            continue
        contents = [one[2] for one in known if one is not None]
        check(about[2] in contents, f"{where}: {path} is neither what it was nor what it shall be")


def undone(situation: Situation, work: Path, where: str) -> None:
    """The present is in one of the checkpoints that were made before a rollback: nothing is lost."""
    log = succeed("log", "r", "--json", cwd=work).json["checkpoints"]
    saved = [entry["checkpoint_id"] for entry in log if entry["trigger"] == "rollback_begin"]
    check(saved, f"{where}: the present was not saved")
    for checkpoint in reversed(saved):  # the first one that was made
        done = call("rollback", checkpoint, "--files", "--yes", cwd=work)
        check(done.code == 0, f"{where}: {done}")
        if situation.now == tree(work):
            break
    check(situation.now == tree(work), f"{where}: what was there before cannot be brought back")
    check(succeed("fsck", "--json", cwd=work).json["ok"], f"{where}: the store is damaged")
