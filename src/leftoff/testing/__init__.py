"""What tests of leftoff, and of anything built on it, can use: a clock, a store that fails, the stores' contract.

``StoreContract`` needs pytest and is loaded when it is first asked for; the others need nothing.
"""

from __future__ import annotations

from leftoff.testing.clock import FakeClock
from leftoff.testing.faulty import FaultyStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.testing.contract import StoreContract

__all__ = ["FakeClock", "FaultyStore", "StoreContract"]


def __getattr__(name: str) -> object:
    if name != "StoreContract":
        raise AttributeError(f"module 'leftoff.testing' has no attribute {name!r}")
    import pytest

    # Before the modules are imported: a failing assert in them then shows its values, as in a test file.
    pytest.register_assert_rewrite(
        "leftoff.testing.contract", "leftoff.testing.scribe", "leftoff.testing.rules"
    )
    from leftoff.testing.contract import StoreContract

    return StoreContract
