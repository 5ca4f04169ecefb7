"""An OpenAI Agents program whose conversation is a Clew thread: it goes on, branches and looks back.

A scripted model replaces a real one, so that this runs anywhere. Everything else is the SDK as it is.
"""

import asyncio
from tempfile import TemporaryDirectory

from agents import Agent, RunConfig, Runner, Usage
from agents.testing import ModelStep, ScriptedModel, assistant_message

import clew
from clew.adapters.openai_agents import Session

OFFLINE = RunConfig(tracing_disabled=True)


def answer(text: str) -> ModelStep:
    usage = Usage(requests=1, input_tokens=120, output_tokens=8, total_tokens=128)
    return ModelStep(output=[assistant_message(text)], usage=usage)


async def ask(agent: Agent[None], question: str, session: Session) -> None:
    result = await Runner.run(agent, question, session=session, run_config=OFFLINE)
    print(f"{question} {result.final_output}")


async def main() -> None:
    answers = ["It is in Bremen.", "Tomorrow morning.", "Tomorrow evening."]
    agent = Agent(name="clerk", model=ScriptedModel([answer(text) for text in answers]))
    with TemporaryDirectory() as folder:
        async with Session("parcel-7", clew.open(f"sqlite:///{folder}/agent.db")) as session:
            await ask(agent, "Where is my parcel?", session)
            await ask(agent, "When will it come?", session)

            turns = await session.turns()
            other = await session.fork("parcel-7/evening", at=turns[1].version - 1)
            await ask(agent, "Can it come later?", other)

            print(
                f"{len(await session.get_items())} items here, {len(await other.get_items())} in the branch"
            )
            print(
                f"the second answer used {turns[1].usage.total} tokens, all {(await session.usage()).total}"
            )
            print(f"about Bremen: {[turn.text for turn in await session.search('bremen')]}")


asyncio.run(main())
