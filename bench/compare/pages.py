"""Write the tables of the documentation from the results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.compare.processes import PLAYERS, ROOT, Player

BEGIN, END = "<!-- compare:begin -->", "<!-- compare:end -->"
RESULTS = ROOT / "bench" / "results" / "compare.json"
COMPARISON = ROOT / "docs" / "explanation" / "comparison.md"
README = ROOT / "README.md"

REMARK = (
    "A step is acknowledged when the tool calls the next one. All ran on one small machine: use the figures to\n"
    "compare tools, not to predict yours. Choose make or Snakemake if a file says that a step is done."
)


def table(document: dict[str, Any], columns: list[tuple[str, str, str]]) -> str:
    """A row per tool; a column is its title, the scene and the name of the cell."""
    lines = [
        "| | " + " | ".join(title for title, _, _ in columns) + " |",
        "| --- |" + " --- |" * len(columns),
    ]
    for player in PLAYERS:
        cells = [cell(document, player, scene, name) for _, scene, name in columns]
        lines.append(f"| {player.title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cell(document: dict[str, Any], player: Player, scene: str, name: str) -> str:
    """One figure, as people read it."""
    if name == "choose":
        return player.choose
    facts: dict[str, Any] = document["scenes"].get(scene, {}).get(player.name, {"missing": "not measured"})
    if "missing" in facts or "failed" in facts:
        return str(facts.get("missing", "failed"))
    if name == "kill":
        return f"{facts['lost']} in {facts['kills']} kills"
    if name == "power":
        most = (
            f" (at most {facts['most_lost']} step{'s' * (facts['most_lost'] > 1)})"
            if facts["most_lost"]
            else ""
        )
        return f"{facts['cuts_with_loss']} of {facts['cuts']}{most}"
    if name == "bytes":
        return megabytes(facts["bytes"])
    if name.startswith("seconds_"):
        return f"{facts[name]:.2g} s" if name in facts else "not measured"
    if name == "outputs":
        return {2: "yes", 1: "in part", 0: "no"}[
            facts["deleted_output_noticed"] + facts["changed_output_noticed"]
        ]
    if name == "damage":
        return (
            f"{facts['wrong'] + facts['incomplete']} wrong, {facts['noticed']} noticed, of {facts['copies']}"
        )
    raise KeyError(name)


def megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size < 1e8 else f"{size / 1e6:.0f} MB"


def columns(document: dict[str, Any]) -> list[tuple[str, str, str]]:
    """All columns of the comparison page."""
    resumes = [
        (f"resume after {count:,} steps", "recovery", f"seconds_{count}") for count in document["finished"]
    ]
    return [
        ("acknowledged steps lost by kills", "kill", "kill"),
        ("power cuts that lost acknowledged steps", "power", "power"),
        (f"disk after {document['grown']:,} steps", "growth", "bytes"),
        *resumes,
        ("changed output noticed", "recovery", "outputs"),
        ("one damaged byte: values", "damage", "damage"),
    ]


def caption(document: dict[str, Any]) -> str:
    """Where and when it was measured."""
    machine = document["machine"]
    versions = ", ".join(
        f"{name} {version}"
        for facts in document["versions"].values()
        for name, version in facts.items()
        if name not in ("leftoff", "server")
    )
    unique = ", ".join(dict.fromkeys(versions.split(", ")))
    return (
        f"Measured on {document['date']} at commit {document['commit']}: {machine['cores']} cores, "
        f"Linux {machine['kernel']}, {machine['filesystem']}, Python {machine['python']}; {unique}."
    )


def fill(path: Path, text: str) -> bool:
    """Replace what is between the markers of a page; False if it has none."""
    page = path.read_text(encoding="utf-8") if path.exists() else ""
    if BEGIN not in page or END not in page:
        return False
    before, _, rest = page.partition(BEGIN)
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return True


def write(document: dict[str, Any]) -> list[Path]:
    """Fill both pages and return those that were written."""
    every = columns(document)
    brief = ("kill", "power", "bytes", "seconds_1000", "outputs")
    short = [("choose it for", "", "choose"), *(one for one in every if one[2] in brief)]
    texts = {
        COMPARISON: f"{table(document, every)}\n\n{caption(document)}",
        README: f"{table(document, short)}\n\n{REMARK}",
    }
    return [path for path, text in texts.items() if fill(path, text)]
