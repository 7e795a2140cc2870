"""Documents that something damaged: bytes flipped, keys dropped, types swapped, cut short."""

from __future__ import annotations

import copy
import random
import time
from pathlib import Path
from typing import Any

import pytest

from leftoff.engine.export import Bundle, export_run
from leftoff.engine.project import open_store_at
from leftoff.engine.settings import load
from leftoff.errors import LeftoffError
from leftoff.model.codec import decode, same_json, text
from leftoff.protocols.document_draft import Source
from leftoff.protocols.document_text import read_document
from leftoff.protocols.import_documents import Importer
from leftoff.protocols.loose_values import Rejected, Repairs, TooNew
from leftoff.protocols.protocol import decode_document, respelt, write
from leftoff.protocols.registry import BUILT_IN, protocol
from tests.protocols.documents import places
from tests.protocols.examples import EXAMPLES

ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    3,
    1.5,
    10**20,
    "",
    "x",
    "✅",
    "12:18",
    [],
    {},
    [1, "2"],
    {"id": 1},
    [[]],
    [None],
]


def flipped(data: bytes, chance: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(out))
        out[place] = chance.choice(
            (out[place] ^ (1 << chance.randrange(8)), chance.randrange(256), 0x22, 0x7B)
        )
    return bytes(out)


def swapped(document: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    found = copy.deepcopy(document)
    for _ in range(chance.randint(1, 4)):
        there = places(found)
        if not there:
            break
        path = chance.choice(there)
        inside: Any = found
        for key in path[:-1]:
            inside = inside[key]
        if chance.random() < 0.3:
            del inside[path[-1]]
        else:
            inside[path[-1]] = copy.deepcopy(chance.choice(ODD))
    return found


def damaged(name: str, chance: random.Random) -> tuple[bytes, str]:
    """The bytes of an example of a protocol after something happened to it, and the file's name."""
    path, examples = EXAMPLES[name]
    document = chance.choice(list(examples.values()))
    kind = chance.choice(("flip", "swap", "cut"))
    if kind == "swap":
        document = swapped(document, chance)
    dump = protocol(name).dump
    data = dump(document).encode()
    if kind == "flip":
        data = flipped(data, chance)
    return (data[: chance.randrange(len(data))] if kind == "cut" else data), path


def check(name: str, data: bytes, path: str) -> str:
    """Rejected by type, or read so that nothing is missing; what it came to."""
    repairs = Repairs()
    started = time.thread_time()
    try:
        document = read_document(data, path, repairs)
        found = decode_document(protocol(name), document, Source(path, 1_765_000_000_000), repairs)
        records = {address: decode(text(value)) for address, value in found.records.items()}
    except (Rejected, TooNew) as error:
        assert error.message and error.hint
        return "rejected"
    finally:
        assert time.thread_time() - started < 2, data  # of work, however busy the machine is
    found.records = records
    assert same_json(respelt(document, protocol(name).keys, Repairs()), write(protocol(name), found)), data
    return "repaired" if repairs.lines else "read"


def run(name: str, number: int, seed: int) -> dict[str, int]:
    chance, counts = random.Random(seed), {"read": 0, "repaired": 0, "rejected": 0}
    for _ in range(number):
        counts[check(name, *damaged(name, chance))] += 1
    return counts


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_sample(name: str) -> None:
    """Only typed rejections or reported repairs, nothing missing, nothing that hangs."""
    counts = run(name, 300, seed=6)
    assert 300 == sum(counts.values())
    assert counts["rejected"] > 20 and counts["repaired"] + counts["read"] > 20


def taken_in(project: Path, number: int, seed: int) -> tuple[int, int]:
    """So many damaged documents of each protocol imported into one store: taken in, rejected."""
    chance, taken = random.Random(seed), 0
    rejected: list[LeftoffError] = []
    store = open_store_at(str(project / ".leftoff"))
    scrubber = load(str(project)).redactor()
    importer = Importer(
        store, str(project), scrubber, 1_765_000_000_000, lambda path, error: rejected.append(error)
    )
    for name in BUILT_IN:
        for index in range(number):
            data, place = damaged(name, chance)
            path = project / f"{name}-{index}" / place
            path.parent.mkdir(parents=True)
            path.write_bytes(data)
            taken += len(importer.write(importer.read([str(path)], protocol(name))))
    store.close()
    assert all(error.message for error in rejected)
    return taken, len(rejected)


def test_into_a_store(project: Path) -> None:
    """Whatever of it is taken in leaves a store that is sound, and runs that can be carried elsewhere."""
    taken, rejected = taken_in(project, 15, seed=7)
    assert taken > 10 and rejected > 10
    store = open_store_at(str(project / ".leftoff"))
    for row in store.read(lambda view: view.list_runs({})):
        export_run(store, row, str(project / "run.leftoff"))
        Bundle(str(project / "run.leftoff")).close()
    store.close()
