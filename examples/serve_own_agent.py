"""An agent of your own behind the HTTP API: declared once, then served, asked and listed, with no key."""

import asyncio

import httpx

import clew
from clew.agents import Agent, AgentSettings, UserMessage
from clew.client import AsyncClient
from clew.server.app import create_app
from clew.testing import ScriptedModel


def make_runtime(db: clew.Database, settings: AgentSettings) -> clew.Runtime:
    """A runtime that plans trips with whatever model the server was started with."""
    return clew.Runtime(
        db,
        agent="travel",
        model=settings.model,
        instructions="You plan trips by train.",
        config=settings.config,
    )


def make_input(message: UserMessage) -> str:
    """The words of a person, and whose they are."""
    return f"{message.user}: {message.text}"


agent = Agent(
    name="travel",
    description="Plans trips by train.",
    make_runtime=make_runtime,
    make_input=make_input,
    notices=("Fares change. Check them before you buy.",),
)
# As a command: clew serve --agent serve_own_agent:agent --model openai:gpt-5


async def main() -> None:
    app = create_app(agent=agent, model=ScriptedModel("At nine, from platform 4.", "49 euros."))
    transport = httpx.ASGITransport(app)
    async with app.lifespan(), httpx.AsyncClient(transport=transport) as http:
        client = AsyncClient("http://127.0.0.1", headers={"X-Clew-User": "alice"}, http=http)
        info = await client.agent()
        print(f"{info.name} answers, with the model {info.model}. {info.notices[0]}")
        for question in ("When does the train to Lisbon leave?", "What does it cost?"):
            turn = await client.run_turn("trip", question)
            print(f"{question} {turn.text}")
        page = await client.messages("trip")
        print(f"Kept: {[message.text for message in page.messages if message.role == 'user']}")


if __name__ == "__main__":
    asyncio.run(main())
