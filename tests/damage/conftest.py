"""One whole store for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.damage.store import Sample, build


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sample]:
    """A store with everything in it; copy it before you damage it."""
    sample = build(tmp_path_factory.mktemp("sample"))
    yield sample
    from tests.damage.store import problems

    assert [] == problems(sample.path)
