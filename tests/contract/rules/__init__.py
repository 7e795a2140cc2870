"""The contract that every store must pass: one module of rules per subject, and a class of tests with all of them.

A store's test file subclasses ``StoreContract`` and defines the methods of ``tests.contract.rules.base.Rules``.
"""

from __future__ import annotations

from tests.contract.rules.blobs import BlobRules
from tests.contract.rules.drivers import DriverRules
from tests.contract.rules.records import RecordRules
from tests.contract.rules.transactions import TransactionRules
from tests.contract.rules.upkeep import UpkeepRules
from tests.contract.rules.versions import VersionRules
from tests.contract.rules.watching import WatchRules


class StoreContract(
    TransactionRules, RecordRules, VersionRules, DriverRules, BlobRules, UpkeepRules, WatchRules
):
    """Check everything that ``leftoff.store.base`` requires of a store."""
