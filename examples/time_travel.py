"""Read, compare and restore the checkpoints of a run, and fork one.

python time_travel.py
"""

import leftoff

with leftoff.run("write-guide", steps=["outline", "write", "polish"]) as run:
    with run.step("outline"):
        run.variables["title"] = "Nature trail"
        run.variables["words"] = 120
    with run.step("write"):
        run.variables["words"] = 1800
    good = run.checkpoint(note="before the risky part")
    with run.step("polish"):
        run.variables.update(title="NATURE TRAIL!!!", words=40)

    print("history, newest first")
    for checkpoint in run.history():
        print(f"  {checkpoint.id}  {checkpoint.trigger:<13}  {checkpoint.step or checkpoint.note or ''}")

    print(f"now        {run.variables['title']}, {run.variables['words']} words")
    before = run.at(good)
    print(f"back then  {before.variables['title']}, {before.variables['words']} words")

    print("what polishing changed")
    for name, change in run.diff(good).variables.changed.items():
        print(f"  {name}: {change.old!r} became {change.new!r}")

    run.rollback(good)  # nothing is erased: the present was saved first, and stays in the history
    print(f"rolled back to {run.variables['title']}, polished: {'yes' if run.done('polish') else 'no'}")

    with run.fork(branch="try-b") as other:
        with other.step("polish"):
            other.variables["title"] = "A quiet trail"
        print(f"on try-b   {other.variables['title']}")
    print(f"on main    {run.variables['title']}")

    with run.step("polish"):
        run.variables["words"] = 1750
