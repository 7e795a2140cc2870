"""The workflow of ``leftoff demo``, as anyone would write it. Nothing in it knows that it will be killed.

Each step also appends its name to a plain file, ``ran.txt``: what ran how often is seen without taking leftoff's word
for it. ``leftoff demo`` starts this as a process of its own, in a temporary folder.
"""

from __future__ import annotations

import time

import leftoff

STEPS = ["fetch", "clean", "analyse", "draft", "publish"]
RAN = "ran.txt"
STEP_S = 0.4


def work(name: str) -> None:
    """What a step would really do."""
    with open(RAN, "a", encoding="ascii") as ran:
        ran.write(f"{name}\n")
    print(f"{name}: running", flush=True)
    time.sleep(STEP_S)


def main() -> None:
    with leftoff.run("weekly-report", title="Weekly report", steps=STEPS) as run:
        for number, name in enumerate(STEPS, start=1):
            if run.done(name):
                print(f"{name}: done before, not run again", flush=True)
                continue
            with run.step(name):
                work(name)
                run.variables["pages"] = number * 10


if __name__ == "__main__":
    main()
