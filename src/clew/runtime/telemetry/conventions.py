"""The names that spans have: those of OpenTelemetry's GenAI conventions 0.65b0, and our own beside them.

They are written here and nowhere else. The conventions are still in development, so a test compares these
names with the package that defines them.
"""

from types import MappingProxyType
from typing import Final

INSTRUMENTATION: Final = "clew"
"""The name of the tracer."""

# Operations, which span names begin with.
INVOKE_AGENT: Final = "invoke_agent"
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"
RETRIEVAL: Final = "retrieval"
COMMIT: Final = "commit"
JOB: Final = "job"

# Attributes of the conventions.
OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
AGENT_NAME: Final = "gen_ai.agent.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
REQUEST_MODEL: Final = "gen_ai.request.model"
OUTPUT_TYPE: Final = "gen_ai.output.type"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
DATA_SOURCE: Final = "gen_ai.data_source.id"
ERROR_TYPE: Final = "error.type"

# Attributes of the conventions that hold content or name a person: only if they are asked for.
USER_ID: Final = "user.id"
INSTRUCTIONS: Final = "gen_ai.system_instructions"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"

# Our own attributes.
RUN_ID: Final = "clew.run.id"
TERMINATION: Final = "clew.run.termination"
STEP_STAGE: Final = "clew.step.stage"
STEP_OUTCOME: Final = "clew.step.outcome"
STEP_COST: Final = "clew.step.cost"
COMMIT_REASON: Final = "clew.commit.reason"
COMMIT_CHANGESETS: Final = "clew.commit.changesets"
JOB_KIND: Final = "clew.job.kind"
JOB_ATTEMPT: Final = "clew.job.attempt"

PROVIDERS: Final = MappingProxyType(
    {
        "azure": "azure.ai.openai",
        "bedrock": "aws.bedrock",
        "google": "gcp.gen_ai",
        "google-cloud": "gcp.vertex_ai",
        "google-gla": "gcp.gemini",
        "google-vertex": "gcp.vertex_ai",
        "grok": "x_ai",
        "mistral": "mistral_ai",
        "openai-chat": "openai",
        "openai-responses": "openai",
        "xai": "x_ai",
    }
)
"""Providers that the conventions call otherwise than the names of models do."""


def provider_and_model(name: str) -> tuple[str, str]:
    """Return the provider and the model of a model's name; one without a provider is its own."""
    provider, colon, model = name.partition(":")
    return (PROVIDERS.get(provider, provider), model) if colon else (name, name)
