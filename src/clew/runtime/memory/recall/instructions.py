"""The part of the instructions for a turn that says what is remembered."""

from clew.core.errors import ClewError
from clew.runtime.context import Context
from clew.runtime.memory.memory import memory_of
from clew.runtime.memory.recall.passages import CurrentWindow
from clew.runtime.memory.recall.render import prompt_part
from clew.runtime.memory.recall.retrieval import Retriever, log
from clew.runtime.respond.respond import Recall
from clew.runtime.settings import MemoryConfig


def make_recall(config: MemoryConfig) -> Recall:
    """Make the recall of a runtime: rules, facts, arcs and passages for the words of a user."""

    async def recall(context: Context, message: str, window: int) -> str:
        turn = context.turn
        if turn.db is None:
            return ""
        retriever = Retriever(memory_of(turn.db, turn.thread, turn.user), context.embedding_provider)
        first_turn = turn.episode is not None and turn.episode.turns == 1
        try:
            with turn.step("retrieval", "memory"):
                memory = await retriever.working_memory(
                    message,
                    first_turn=first_turn,
                    window=CurrentWindow(thread=turn.thread, length=window),
                    config=config,
                )
        except ClewError as error:  # a turn is worth more than what it may remember
            log.warning("A turn recalled nothing: %s", error.code)
            return ""
        return prompt_part(memory.result.entries, memory.profile.rules, recall=memory.profile.recall)

    return recall
