"""The contract that every store keeps, ready to be run against one.

    class TestMyStore(StoreContract):
        store_name = "mine"

        @pytest.fixture
        def opening(self, tmp_path: Path) -> StoreOpener:
            return lambda clock: my_store(tmp_path / "data", clock=clock)

``opening`` gives an async context manager of the open store, on the same data each time. Where that cannot
be, an async fixture ``store`` that yields an open store is enough for most of the contract. A fixture
``damage`` changes rows behind the store's back, for the tests of how damage is found. If your tests allow
only known marks, set ``pytest_plugins = ["clew.testing.plugin"]`` in ``conftest.py``.
"""

from clew.testing.contracts.appends import AppendContract
from clew.testing.contracts.bad_input import BadInputContract
from clew.testing.contracts.chain import ChainContract
from clew.testing.contracts.compaction import CompactionContract
from clew.testing.contracts.erasure import ErasingContract, HoldContract, RetentionContract
from clew.testing.contracts.failures import FailureContract
from clew.testing.contracts.forks import ForkContract
from clew.testing.contracts.items import BrokenContract, TakingContract, WindowContract
from clew.testing.contracts.jobs import JobsContract
from clew.testing.contracts.keys import IdempotencyContract
from clew.testing.contracts.machines import MachineContract
from clew.testing.contracts.ops import OpsContract
from clew.testing.contracts.part_erasure import PartErasingContract
from clew.testing.contracts.provisional import ProvisionalContract
from clew.testing.contracts.records import CommitContract, RecordsContract
from clew.testing.contracts.scopes import ListContract, ScopeContract
from clew.testing.contracts.search import SearchContract
from clew.testing.contracts.shared_data import SharingContract
from clew.testing.contracts.tool_calls import PairingContract
from clew.testing.contracts.travel import TimeTravelContract
from clew.testing.contracts.vectors import VectorContract
from clew.testing.contracts.watch import WatchContract


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
    VectorContract,
    ScopeContract,
    ListContract,
    BadInputContract,
    ChainContract,
    ErasingContract,
    PartErasingContract,
    HoldContract,
    RetentionContract,
    WatchContract,
    ProvisionalContract,
    SharingContract,
    MachineContract,
):
    """The whole contract."""
