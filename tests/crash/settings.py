"""What a crashing program is told to do, passed to it as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace


@dataclass(frozen=True)
class Settings:
    """`broken` names a deliberate breakage that the test must catch: `ack-early` acknowledges before the
    commit, `swallow` acknowledges a commit that failed, `sync-off` sets `synchronous=OFF`."""

    store: str
    files: str  # where the files lie that become artifacts
    plan: str = "mixed"
    threads: int = 1
    count: int | None = None  # operations per thread; None: until killed
    tries: int = 4
    pause: float = 0.0  # seconds between a failure and the next try
    warm: str = ""  # another store to do the same in beforehand, so that lazy imports are done
    broken: str = ""

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Settings:
        """Back from JSON."""
        return cls(**json.loads(text))

    def rehearsal(self) -> Settings:
        """The same work in the warm-up store, unbroken."""
        return replace(self, store=self.warm, warm="", broken="")
