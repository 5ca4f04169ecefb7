"""Options of an agent: each name opens what it says, and is closed again."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.agents import Agent, plain_agent
from clew.agents.options import AgentOptions, open_named_embedder, open_settings
from clew.core.errors import InvalidArgument
from clew.runtime.memory.vectors.embedders import RemoteEmbedder
from clew.testing import ScriptedModel
from clew.testing.embedder import SpellingEmbedder
from tests.support.embedders import SPELLING
from tests.support.openai_server import EmbeddingReply, chat_server, letters_of

MODULE = """
from clew.testing.embedder import SpellingEmbedder

embedder = SpellingEmbedder()

class Letters:
    name = "letters"

    async def embed(self, texts):
        return [[float(len(text))] for text in texts]
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the current directory."""
    name = f"embedding_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


async def test_everything_that_the_options_name_is_opened(tmp_path: Path) -> None:
    (tmp_path / "brief.md").write_text("Be brief.", encoding="utf-8")
    options = AgentOptions(
        embedder=SPELLING,
        search_provider="searxng:https://search.example.org",
        skills=str(tmp_path),
    )
    async with open_settings(plain_agent, options, {}) as settings:
        assert isinstance(settings.embedder, SpellingEmbedder)
        assert settings.search_provider is not None
        assert settings.search_provider.name == "searxng:search.example.org"
        assert settings.skills == {"brief": "Be brief."}


async def test_without_options_there_is_nothing() -> None:
    async with open_settings(plain_agent, AgentOptions(), {}) as settings:
        assert (settings.model, settings.embedder, settings.search_provider) == (None, None, None)
        assert settings.skills == {}


async def test_a_model_that_is_given_goes_before_the_one_that_is_named() -> None:
    model = ScriptedModel()
    async with open_settings(plain_agent, AgentOptions(model="a:b"), {}, model=model) as settings:
        assert settings.model is model


async def test_an_embedder_of_a_server_takes_key_and_address_from_the_environment() -> None:
    async with chat_server(EmbeddingReply(size=3)) as server:
        environment = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-1"}
        async with open_named_embedder("openai:text-embedding-3-small", environment) as embedder:
            assert isinstance(embedder, RemoteEmbedder)
            vectors = await embedder.embed(["one"])

    assert vectors == [letters_of("one", 3)]
    assert server.requests[0]["model"] == "text-embedding-3-small"
    assert server.headers[0]["authorization"] == "Bearer sk-1"


@pytest.mark.parametrize(("attribute", "name"), [("embedder", "spelling-512"), ("Letters", "letters")])
async def test_an_embedder_of_ones_own_is_named_by_module_and_attribute(
    module: str, attribute: str, name: str
) -> None:
    async with open_named_embedder(f"{module}:{attribute}", {}) as embedder:
        assert embedder is not None
        assert embedder.name == name


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "word2vec",
            "There is no embedder 'word2vec'. Use openai:MODEL, local:MODEL, none or module",
        ),
        ("hashing", "There is no embedder 'hashing'"),
        ("openai:", "There is no embedder 'openai:'"),
        ("nowhere_at_all:embedder", "There is no module 'nowhere_at_all'"),
        ("json:JSONDecoder", "Give an object with a name and an async method embed(texts)"),
    ],
)
async def test_a_name_that_leads_to_no_embedder_is_refused(name: str, problem: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        async with open_named_embedder(name, {}):
            pass
    assert problem in str(caught.value)


async def test_an_agent_with_a_model_of_its_own_still_gets_the_rest() -> None:
    agent = Agent(name="own", make_runtime=plain_agent.make_runtime, brings_model=True)
    async with open_settings(agent, AgentOptions(embedder=SPELLING), {}) as settings:
        assert settings.embedder is not None
