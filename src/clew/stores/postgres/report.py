"""What the store says about itself, from one row of facts."""

from clew.core.ports import Report
from clew.stores.postgres.answers import Row
from clew.stores.postgres.schema import NEWEST


def report_of(store: str, row: Row, connections: int) -> Report:
    """The report behind the answer of the query ``about_server``."""
    server, schema, role, bypasses, sees_all, threads, size = row
    warning = (
        f"Role {role!r} can bypass row-level security. Clew's own calls are held to it all the same; "
        "connect as a member of clew_app, so that nothing else reads across tenants either."
    )
    return Report(
        store=store,
        format=schema,
        healthy=schema == NEWEST,
        facts={
            "server": server,
            "schema": schema,
            "role": role,
            "bypasses_row_security": bypasses,
            "sees_every_tenant": sees_all,
            "threads_estimated": threads,
            "bytes": size,
            "connections": connections,
        },
        problems=(warning,) if bypasses else (),
    )
