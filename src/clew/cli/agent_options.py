"""The options of commands that name what an agent may use, beside its model."""

from typing import Annotated

import typer

from clew.agents.options import EMBEDDERS
from clew.agents.search_provider import SEARCH_PROVIDERS

EMBEDDER_HELP = f"By meaning too: {EMBEDDERS}."
SEARCH_PROVIDER_HELP = f"To look things up: {SEARCH_PROVIDERS}."
SKILLS_HELP = "A folder of skills for prompts, .md or .txt."

EmbedderOption = Annotated[
    str | None, typer.Option("--embedder", envvar="CLEW_EMBEDDER", metavar="NAME", help=EMBEDDER_HELP)
]
SearchProviderOption = Annotated[
    str | None,
    typer.Option(
        "--search-provider", envvar="CLEW_SEARCH_PROVIDER", metavar="NAME", help=SEARCH_PROVIDER_HELP
    ),
]
SkillsOption = Annotated[
    str | None, typer.Option("--skills", envvar="CLEW_SKILLS", metavar="FOLDER", help=SKILLS_HELP)
]
ServedEmbedderOption = Annotated[
    str | None,
    typer.Option(
        "--embedder", envvar=["CLEW_SERVER_EMBEDDER", "CLEW_EMBEDDER"], metavar="NAME", help=EMBEDDER_HELP
    ),
]
ServedSearchProviderOption = Annotated[
    str | None,
    typer.Option(
        "--search-provider",
        envvar=["CLEW_SERVER_SEARCH_PROVIDER", "CLEW_SEARCH_PROVIDER"],
        metavar="NAME",
        help=SEARCH_PROVIDER_HELP,
    ),
]
ServedSkillsOption = Annotated[
    str | None,
    typer.Option(
        "--skills", envvar=["CLEW_SERVER_SKILLS", "CLEW_SKILLS"], metavar="FOLDER", help=SKILLS_HELP
    ),
]
