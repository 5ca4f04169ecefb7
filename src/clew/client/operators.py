"""What operators of a tenant do, awaited and blocking; see ``operator`` of a client."""

from clew.client import operator_calls
from clew.client.methods import Awaited, Blocking, Method


class OperatorMethods:
    """The calls of operators, for either client."""

    erase = Method(operator_calls.erase)
    receipts = Method(operator_calls.receipts)
    settle_receipts = Method(operator_calls.settle_receipts)
    holds = Method(operator_calls.holds)
    hold = Method(operator_calls.hold)
    release = Method(operator_calls.release)
    rules = Method(operator_calls.rules)
    set_rule = Method(operator_calls.set_rule)
    drop_rule = Method(operator_calls.drop_rule)
    apply_rules = Method(operator_calls.apply_rules)
    crises = Method(operator_calls.crises)
    export_crises = Method(operator_calls.export_crises)
    extend_crises = Method(operator_calls.extend_crises)
    purge_crises = Method(operator_calls.purge_crises)
    audit = Method(operator_calls.audit)


class AsyncOperator(Awaited, OperatorMethods):
    """The calls of operators, awaited."""


class Operator(Blocking, OperatorMethods):
    """The calls of operators, blocking."""
