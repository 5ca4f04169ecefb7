"""The random machine as part of the contract."""

# ruff: noqa: D102 - tests are named by sentences.

import asyncio

import pytest

from clew.testing.fixtures import StoreFixtures, StoreOpener
from clew.testing.machine import run_machine


class MachineContract(StoreFixtures):
    """Tests by random operations, for cases that no list thinks of."""

    examples = 25
    """How many random runs are made."""

    @pytest.mark.promise("T-14", "T-13", "T-01", "B-03", "S-03")
    async def test_random_operations_come_to_the_same_as_in_memory(self, opening: StoreOpener | None) -> None:
        if opening is None:
            pytest.skip("nobody said how to open this store")

        await asyncio.to_thread(run_machine, opening, examples=self.examples)
