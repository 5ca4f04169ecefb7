"""The contract that every store keeps, ready to be run against one.

    class TestMyStore(StoreContract):
        store_name = "mine"

        @pytest.fixture
        def opening(self, tmp_path: Path) -> Opening:
            return lambda clock: my_store(tmp_path / "data", clock=clock)

``opening`` gives an async context manager of the open store, on the same data each time. Where that cannot
be, an async fixture ``store`` that yields an open store is enough for most of the contract. A fixture
``damage`` says how to change rows behind the store's back, for the tests of what is found then. Who allows
only known marks says ``pytest_plugins = ["holdfast.testing.plugin"]`` in ``conftest.py``.
"""

from holdfast.testing.contracts.appends import AppendContract
from holdfast.testing.contracts.bad_input import BadInputContract
from holdfast.testing.contracts.chain import ChainContract
from holdfast.testing.contracts.compaction import CompactionContract
from holdfast.testing.contracts.erasing import ErasingContract, HoldContract, RetentionContract
from holdfast.testing.contracts.failures import FailureContract
from holdfast.testing.contracts.forks import ForkContract
from holdfast.testing.contracts.items import BrokenContract, TakingContract, WindowContract
from holdfast.testing.contracts.jobs import JobsContract
from holdfast.testing.contracts.keys import IdempotencyContract
from holdfast.testing.contracts.machines import MachineContract
from holdfast.testing.contracts.ops import OpsContract
from holdfast.testing.contracts.pairing import PairingContract
from holdfast.testing.contracts.part_erasing import PartErasingContract
from holdfast.testing.contracts.records import CommitContract, RecordsContract
from holdfast.testing.contracts.scopes import ListContract, ScopeContract
from holdfast.testing.contracts.search import SearchContract
from holdfast.testing.contracts.sharing import SharingContract
from holdfast.testing.contracts.travel import TimeTravelContract
from holdfast.testing.contracts.watching import WatchContract


class StoreContract(
    AppendContract,
    OpsContract,
    TimeTravelContract,
    ForkContract,
    WindowContract,
    TakingContract,
    CompactionContract,
    BrokenContract,
    PairingContract,
    IdempotencyContract,
    FailureContract,
    RecordsContract,
    CommitContract,
    JobsContract,
    SearchContract,
    ScopeContract,
    ListContract,
    BadInputContract,
    ChainContract,
    ErasingContract,
    PartErasingContract,
    HoldContract,
    RetentionContract,
    WatchContract,
    SharingContract,
    MachineContract,
):
    """The whole contract."""
