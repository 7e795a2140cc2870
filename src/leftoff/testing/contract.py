"""The contract that every store must pass, as a class of tests.

Subclass it in a test file and say how to make a store::

    from leftoff.testing import StoreContract

    class TestMyStore(StoreContract):
        def make_store(self, folder): ...
        def reopen(self, store): ...
        # and the rest of leftoff.testing.rules.base.Rules
"""

from __future__ import annotations

from leftoff.testing.rules.blobs import BlobRules
from leftoff.testing.rules.drivers import DriverRules
from leftoff.testing.rules.records import RecordRules
from leftoff.testing.rules.transactions import TransactionRules
from leftoff.testing.rules.upkeep import UpkeepRules
from leftoff.testing.rules.versions import VersionRules
from leftoff.testing.rules.watching import WatchRules


class StoreContract(
    TransactionRules, RecordRules, VersionRules, DriverRules, BlobRules, UpkeepRules, WatchRules
):
    """Everything that ``leftoff.store.base`` obliges a store to."""
