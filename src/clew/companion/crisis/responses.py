"""The crisis response: fixed words by level, and the lines of the country if it is known."""

from clew.companion.crisis.floor import language_of
from clew.companion.crisis.help import CHECK, located, reply, resources_in, wording_for
from clew.companion.crisis.listening import legible
from clew.companion.crisis.turns import said_by_person, turns_before
from clew.companion.state import Companion
from clew.companion.values import Level
from clew.runtime.context import Context
from clew.runtime.draft import Delta


async def crisis_response(state: Companion, ctx: Context) -> Delta:
    """Say the fixed words that the level asks for: never a model's."""
    before = await turns_before(state, ctx)
    region, status = located(said_by_person(state.message, before))
    language = language_of(legible(state.message), before)
    text = ctx.turn.safe or _words(state, language, region)
    style = "crisis_response" if state.crisis.needs_crisis_response else "safety_check"
    return {
        "response_text": text,
        "response_style": style,
        "response_style_source": "crisis_gate",
        "inferred_location": region,
        "found_resources": resources_in(region, language),
        "resource_lookup_status": status,
    }


def _words(state: Companion, language: str, region: str) -> str:
    if state.crisis.needs_clarification:
        return reply(wording_for(Level.UNCLEAR), language, region)
    if state.crisis.needs_crisis_response:
        return reply(wording_for(state.crisis.level), language, region)
    return reply(CHECK, language, region)
