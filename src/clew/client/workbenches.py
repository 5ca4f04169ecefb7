"""What belongs to the workbench of a thread, awaited and blocking; see ``workbench`` of a client."""

from clew.client import workbench_calls
from clew.client.methods import Awaited, Blocking, Method


class WorkbenchMethods:
    """The calls of the workbench, for either client."""

    core_memory = Method(workbench_calls.core_memory)
    put_block = Method(workbench_calls.put_block)
    documents = Method(workbench_calls.documents)
    add_document = Method(workbench_calls.add_document)
    load_document = Method(workbench_calls.load_document)
    switch_document = Method(workbench_calls.switch_document)
    unload_document = Method(workbench_calls.unload_document)
    document_sections = Method(workbench_calls.document_sections)
    peek_document = Method(workbench_calls.peek_document)
    find_in_document = Method(workbench_calls.find_in_document)
    artifacts = Method(workbench_calls.artifacts)
    artifact = Method(workbench_calls.artifact)
    delete_artifact = Method(workbench_calls.delete_artifact)
    volume = Method(workbench_calls.volume)


class AsyncWorkbench(Awaited, WorkbenchMethods):
    """The calls of the workbench, awaited."""


class Workbench(Blocking, WorkbenchMethods):
    """The calls of the workbench, blocking."""
