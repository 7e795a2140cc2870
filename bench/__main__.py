"""`python -m bench [--json] [--case NAME …] [--quick] [--repeat N]`.

Exit code 0: every target met; 1: some fell short; 2: a case could not be measured (an API that is missing
or fails is a failure of the case, never a reason to leave it out).
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
import time
import traceback
from pathlib import Path

from bench import cases, places
from bench.registry import CASES, Case, Context
from bench.report import Outcome, document, outcome_text, summary


def load_cases() -> None:
    """Import every module under `bench.cases`, which registers its cases."""
    for module in sorted(pkgutil.iter_modules(cases.__path__), key=lambda found: found.name):
        importlib.import_module(f"bench.cases.{module.name}")


def arguments(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="leftoff against its peers")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--case", action="append", choices=sorted(CASES), help="only this one (repeatable)")
    parser.add_argument("--quick", action="store_true", help="small sizes, under a minute")
    parser.add_argument("--repeat", type=int, help="interleaved rounds per comparison")
    parser.add_argument("--disk", type=Path, default=places.DISK, help="a folder on a real disk")
    parser.add_argument("--ram", type=Path, default=places.RAM, help="a folder on a RAM disk")
    return parser.parse_args(argv)


def measure(case: Case, context: Context) -> Outcome:
    """Take a case's rows, keeping those it gave before it failed."""
    outcome = Outcome(case)
    began = time.perf_counter()
    try:
        for row in case.measure(context):
            outcome.rows.append(row)
    except Exception:
        outcome.error = traceback.format_exc()
    outcome.seconds = time.perf_counter() - began
    return outcome


def main(argv: list[str]) -> int:
    """Measure the chosen cases one after another."""
    load_cases()
    options = arguments(argv)
    places.require(options.disk, options.ram)
    context = Context(options.quick, options.repeat, options.disk, options.ram)
    outcomes = []
    for name in options.case or CASES:
        outcomes.append(measure(CASES[name], context))
        print(outcome_text(outcomes[-1]), file=sys.stderr if options.json else sys.stdout, flush=True)
    facts: dict[str, object] = {
        "cpus": os.cpu_count(),
        "quick": options.quick,
        "disk": places.filesystem(options.disk),
    }
    print(document(outcomes, facts) if options.json else summary(outcomes))
    if any(outcome.error for outcome in outcomes):
        return 2
    return int(any(row.state == "short" for outcome in outcomes for row in outcome.rows))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
