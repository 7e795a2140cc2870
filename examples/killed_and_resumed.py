"""The demo: a workflow of five steps dies of SIGKILL in its third, and goes on where it was.

python killed_and_resumed.py

It works in a temporary folder, which it removes at the end. Each step also appends its name to a plain file,
`ran.txt`, so that what ran how often is seen without taking leftoff's word for it.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import leftoff

STEPS = ["fetch", "clean", "analyse", "draft", "publish"]
RAN = Path("ran.txt")


def work() -> None:
    """The workflow, as anyone would write it. Nothing in it knows that it will be killed."""
    with leftoff.run("weekly-report", title="Weekly report", steps=STEPS) as run:
        for number, name in enumerate(STEPS, start=1):
            if run.done(name):
                print(f"    {name}: already done, not run again", flush=True)
                continue
            with run.step(name):
                print(f"    {name}: running", flush=True)
                with RAN.open("a") as ran:
                    ran.write(f"{name}\n")
                time.sleep(0.5)
                run.variables["pages"] = number * 10


def show(run: leftoff.Run) -> None:
    """Each step with its status, as the store has it."""
    for name in STEPS:
        print(f"    {name:<8} {run.steps[name]['status']}")


def run_workflow(kill_in: str | None = None) -> int:
    """Run the workflow in a process of its own, and kill -9 that as soon as the given step runs."""
    child = subprocess.Popen([sys.executable, __file__, "work"], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for line in child.stdout:
        print(line, end="", flush=True)
        if kill_in and line.strip() == f"{kill_in}: running":
            os.kill(child.pid, signal.SIGKILL)
            print("    kill -9", flush=True)
            break
    child.stdout.close()
    return child.wait()


def demo() -> None:
    """Tell the story in five parts."""
    print("1. A workflow of five steps starts, and is killed in the third.")
    run_workflow(kill_in="analyse")

    store = leftoff.open(".leftoff")
    print("\n2. What is left of it, read from disk. Two steps are safe.")
    show(store.get("weekly-report"))

    print("\n3. The same command again. It goes on where it was.")
    status = run_workflow()

    ran = RAN.read_text().split()
    print("\n4. How often each step ran.")
    for name in STEPS:
        print(f"    {name:<8} {ran.count(name)}")

    print("\n5. Every checkpoint is still there, newest first; and what the last step changed.")
    run = store.get("latest")
    for checkpoint in run.history():
        print(f"    {checkpoint.id}  {checkpoint.trigger:<13}  {checkpoint.step or ''}")
    for name, change in run.diff("~1").variables.changed.items():
        print(f"    {name}: {change.old} became {change.new}")
    store.close()

    expected = ["fetch", "clean", "analyse", "analyse", "draft", "publish"]
    if status != 0 or ran != expected:
        sys.exit(f"\nThat is not how it should have gone: the steps ran as {ran}")
    print("\nfetch and clean were finished before the kill, so they never ran again.")


def main() -> None:
    """Called without arguments: the demo. It calls itself with `work` for the process that it kills."""
    if sys.argv[1:] == ["work"]:
        work()
        return
    here = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="leftoff-demo-") as folder:
        os.chdir(folder)
        for name in [name for name in os.environ if name.startswith("LEFTOFF_")]:
            del os.environ[name]
        os.environ["LEFTOFF_PROJECT"] = folder  # so that it never writes into a project of yours
        try:
            demo()
        finally:
            os.chdir(here)


if __name__ == "__main__":
    main()
