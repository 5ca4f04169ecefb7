"""Subjects of an experiment: a model, a pipeline of stages, or any function of an example."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from clew.core.arguments import check_arguments
from clew.core.encoding import JSON, as_json
from clew.runtime.execution.stateless import run_agent
from clew.runtime.model.call import Deadlines, RetryPolicy
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import Model, Usage
from clew.runtime.records.steps import Price
from clew.runtime.respond.respond import Stage
from clew.runtime.state.schema import Conversation, State
from clew.runtime.tools.tool import Tool, ToolFunction
from clew.workbench.experiments.examples import Example


class SubjectAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer and its cost in millionths of a dollar; None if no price is known."""

    output: JSON
    usage: Usage = Usage()
    cost: int | None = None


ExperimentSubject: TypeAlias = Callable[[Example], Any]
"""What is asked: it answers an example with an output, or with an ``Answer``. It may be async."""


@check_arguments
def agent_subject(
    model: Model | None = None,
    *,
    stages: Sequence[Stage] | None = None,
    schema: type[State] = Conversation,
    response_model: Model | None = None,
    tools: Sequence[Tool | ToolFunction] = (),
    instructions: str = "",
    output: type[Any] | None = None,
    retry_policy: RetryPolicy = RetryPolicy(),
    deadlines: Deadlines = Deadlines(),
    prices: Mapping[str, Price] | None = None,
) -> Callable[[Example], Awaitable[SubjectAnswer]]:
    """A model, or the stages of a runtime, as something that an experiment can ask.

    Nothing is kept of its turns. With an ``output`` type the answer is what that shows; otherwise it is
    the text.
    """
    price_table = prices or {}
    models = [each.name for each in (model, response_model) if each is not None]

    async def answer_example(example: Example) -> SubjectAnswer:
        *before, last = example.messages
        result = await run_agent(
            last.content,
            schema=schema,
            stages=stages,
            model=model,
            response_model=response_model,
            tools=tools,
            instructions=instructions,
            output=output,
            history=[Message(role=message.role, content=message.content) for message in before],
            retry_policy=retry_policy,
            deadlines=deadlines,
            prices=price_table,
        )
        is_priced = bool(result.usage.cost) or all(name in price_table for name in models)
        return SubjectAnswer(
            output=result.text if output is None else as_json(result.output),
            usage=result.usage,
            cost=result.usage.cost if is_priced and models else None,
        )

    return answer_example
