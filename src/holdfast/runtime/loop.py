"""The model loop: ask, keep the answer, run its tools, keep their results, and ask again.

Where the loop stands is read from the history, so a run that was interrupted or suspended goes on where it
stopped: an answer that was kept is not asked for again, a tool that was answered is not called again.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from holdfast.core.errors import InvalidArgument
from holdfast.runtime.context import Context
from holdfast.runtime.draft import Delta
from holdfast.runtime.events import ASSISTANT, TOOL_RESULTS
from holdfast.runtime.messages import CALL, RESULT, Message
from holdfast.runtime.models import Reply, Request, ToolCall
from holdfast.runtime.toolbox import Toolbox
from holdfast.runtime.tools import Tool

Stage: TypeAlias = Callable[[Any, Context], Awaitable[Delta | None]]
WINDOW = 40
MOST_STEPS = 32


def respond(
    *,
    instructions: str | Callable[[Any], str] = "",
    tools: Sequence[Tool] = (),
    window: int = WINDOW,
    field: str = "reply",
) -> Stage:
    """A stage that lets the model answer, with tools, and puts the final text into a field."""
    toolbox = Toolbox(tools)

    async def respond(state: Any, ctx: Context) -> Delta:
        said = instructions(state) if callable(instructions) else instructions
        return {field: await _loop(ctx, toolbox, said, window)}

    return respond


async def _loop(ctx: Context, toolbox: Toolbox, instructions: str, window: int) -> str:
    turn = ctx.turn
    for _ in range(MOST_STEPS):
        messages = await history(ctx, window)
        own = [message for message in messages if message.run == turn.id]
        open = unanswered(own)
        if open:
            await toolbox.answer(turn, open)
            await turn.checkpoint(TOOL_RESULTS)
            toolbox.check_suspended(turn)
            continue
        if own and own[-1].role == "assistant":
            return own[-1].text
        request = Request(messages=messages, instructions=instructions, tools=toolbox.specs())
        reply = await turn.ask(ctx.reply_llm, request)
        turn.add(_as_messages(reply))
        toolbox.intend(turn, reply.calls)
        await turn.checkpoint(ASSISTANT)
    raise InvalidArgument(problem=f"The model called tools {MOST_STEPS} times without an answer.")


async def history(ctx: Context, window: int) -> list[Message]:
    """The newest messages, never beginning in the middle of a tool call and its result."""
    log = ctx.turn.draft.log("history")
    messages = list(await log.tail(window))
    while messages and messages[0].kind == RESULT:
        messages.pop(0)
    return messages


def unanswered(messages: Sequence[Message]) -> list[ToolCall]:
    """The calls among messages that no result answers."""
    answered = {message.call for message in messages if message.kind == RESULT}
    return [
        ToolCall(id=message.call, name=message.name or "", arguments=message.arguments)
        for message in messages
        if message.kind == CALL and message.call is not None and message.call not in answered
    ]


def _as_messages(reply: Reply) -> list[Message]:
    said = [Message(role="assistant", content=reply.text)] if reply.text or not reply.calls else []
    return said + [
        Message(role="assistant", kind=CALL, call=call.id, name=call.name, arguments=call.arguments)
        for call in reply.calls
    ]
