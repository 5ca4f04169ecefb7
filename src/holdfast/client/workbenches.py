"""What belongs to the workbench of a thread, awaited and blocking; see ``workbench`` of a client."""

from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.client import workbench_calls
from holdfast.client.methods import awaited, blocking
from holdfast.client.requests import Call


class AsyncWorkbench:
    """The calls of the workbench, awaited."""

    def __init__(self, send: Callable[[Call[Any]], Awaitable[Any]]) -> None:
        self._send = send

    core_memory = awaited(workbench_calls.core_memory)
    put_block = awaited(workbench_calls.put_block)
    documents = awaited(workbench_calls.documents)
    add_document = awaited(workbench_calls.add_document)
    load_document = awaited(workbench_calls.load_document)
    switch_document = awaited(workbench_calls.switch_document)
    unload_document = awaited(workbench_calls.unload_document)
    document_sections = awaited(workbench_calls.document_sections)
    peek_document = awaited(workbench_calls.peek_document)
    find_in_document = awaited(workbench_calls.find_in_document)
    artifacts = awaited(workbench_calls.artifacts)
    artifact = awaited(workbench_calls.artifact)
    delete_artifact = awaited(workbench_calls.delete_artifact)
    volume = awaited(workbench_calls.volume)


class Workbench:
    """The calls of the workbench, blocking."""

    def __init__(self, send: Callable[[Call[Any]], Any]) -> None:
        self._send = send

    core_memory = blocking(workbench_calls.core_memory)
    put_block = blocking(workbench_calls.put_block)
    documents = blocking(workbench_calls.documents)
    add_document = blocking(workbench_calls.add_document)
    load_document = blocking(workbench_calls.load_document)
    switch_document = blocking(workbench_calls.switch_document)
    unload_document = blocking(workbench_calls.unload_document)
    document_sections = blocking(workbench_calls.document_sections)
    peek_document = blocking(workbench_calls.peek_document)
    find_in_document = blocking(workbench_calls.find_in_document)
    artifacts = blocking(workbench_calls.artifacts)
    artifact = blocking(workbench_calls.artifact)
    delete_artifact = blocking(workbench_calls.delete_artifact)
    volume = blocking(workbench_calls.volume)
