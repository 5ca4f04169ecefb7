"""What operators of a tenant do, awaited and blocking; see ``operator`` of a client."""

from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.client import operator_calls
from holdfast.client.methods import awaited, blocking
from holdfast.client.requests import Call


class AsyncOperator:
    """The calls of operators, awaited."""

    def __init__(self, send: Callable[[Call[Any]], Awaitable[Any]]) -> None:
        self._send = send

    erase = awaited(operator_calls.erase)
    receipts = awaited(operator_calls.receipts)
    settle_receipts = awaited(operator_calls.settle_receipts)
    holds = awaited(operator_calls.holds)
    hold = awaited(operator_calls.hold)
    release = awaited(operator_calls.release)
    rules = awaited(operator_calls.rules)
    set_rule = awaited(operator_calls.set_rule)
    drop_rule = awaited(operator_calls.drop_rule)
    apply_rules = awaited(operator_calls.apply_rules)
    crises = awaited(operator_calls.crises)
    export_crises = awaited(operator_calls.export_crises)
    extend_crises = awaited(operator_calls.extend_crises)
    purge_crises = awaited(operator_calls.purge_crises)
    audit = awaited(operator_calls.audit)


class Operator:
    """The calls of operators, blocking."""

    def __init__(self, send: Callable[[Call[Any]], Any]) -> None:
        self._send = send

    erase = blocking(operator_calls.erase)
    receipts = blocking(operator_calls.receipts)
    settle_receipts = blocking(operator_calls.settle_receipts)
    holds = blocking(operator_calls.holds)
    hold = blocking(operator_calls.hold)
    release = blocking(operator_calls.release)
    rules = blocking(operator_calls.rules)
    set_rule = blocking(operator_calls.set_rule)
    drop_rule = blocking(operator_calls.drop_rule)
    apply_rules = blocking(operator_calls.apply_rules)
    crises = blocking(operator_calls.crises)
    export_crises = blocking(operator_calls.export_crises)
    extend_crises = blocking(operator_calls.extend_crises)
    purge_crises = blocking(operator_calls.purge_crises)
    audit = blocking(operator_calls.audit)
