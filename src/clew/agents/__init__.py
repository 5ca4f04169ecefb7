"""Agents: what an application declares so that it can be served and talked with."""

from clew.agents.agent import Agent, AgentSettings, StudioPages, UserMessage, VoiceAgent
from clew.agents.discovery import InstalledAgent, find_agent, installed_agents
from clew.agents.plain import plain_agent
from clew.agents.search_provider import Finding, SearchProvider, SearxngProvider

__all__ = [
    "Agent",
    "AgentSettings",
    "Finding",
    "InstalledAgent",
    "SearchProvider",
    "SearxngProvider",
    "StudioPages",
    "UserMessage",
    "VoiceAgent",
    "find_agent",
    "installed_agents",
    "plain_agent",
]
