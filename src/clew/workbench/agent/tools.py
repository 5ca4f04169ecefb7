"""Tools of an agent at the workbench: run code, ask about pieces of text, end with an answer."""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Literal, TypeAlias

from clew.core.encoding import JSON
from clew.core.errors import InterpreterGone, InvalidArgument, TooLarge, VolumeFull
from clew.runtime.model.boundary import ModelWrapper, stream_parts
from clew.runtime.model.messages import CALL, RESULT, Message
from clew.runtime.model.protocol import ModelRequest, Reply, ReplyPart, TextChunk, Usage
from clew.runtime.tools.tool import Effect, NotHappened, Tool, ToolContext, tool
from clew.workbench.agent.questions import LONGEST_PIECE, Questions
from clew.workbench.artifacts import PICTURE_SUFFIXES, artifact_tools
from clew.workbench.core_memory import core_memory_tools
from clew.workbench.documents.tools import document_tools
from clew.workbench.interpreter.port import (
    DisplayOutput,
    ErrorOutput,
    Output,
    OverflowOutput,
    StopOutput,
    StreamOutput,
)
from clew.workbench.session.reset import Transition
from clew.workbench.session.session import Workbench

FINISH = "finish"
ANSWER = "answer"


class FinishingModel(ModelWrapper):
    """A model whose turn is over once it has called ``finish``: what it finished with is its last word.

    It is read from the messages, so it is the same after a crash.
    """

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ReplyPart, None]:
        """The model's reply, or the answer that it has finished with."""
        answer = finish_answer(request.messages)
        if answer is not None:
            yield TextChunk(answer)
            yield Reply(text=answer, usage=Usage())
            return
        async with aclosing(stream_parts(self._model, request)) as parts:
            async for part in parts:
                yield part


def finish_answer(messages: Sequence[Message]) -> str | None:
    """The answer that the newest calls have finished with, if one of them has."""
    results: list[Message] = []
    for message in reversed(messages):
        if message.kind == RESULT:
            results.append(message)
        elif message.kind == CALL:
            result = next((each for each in results if each.call == message.call), None)
            if message.name == FINISH and result is not None and isinstance(result.content, dict):
                answer = result.content.get(ANSWER)
                return answer if isinstance(answer, str) else None
        elif message.role != "system":  # a later note about the interpreter does not undo it
            return None
    return None


LONGEST_OUTPUT = 8_000
"""Characters of output that a model gets of one run."""
PLAIN_TEXT = "text/plain"


def render_outputs(outputs: Sequence[Output], longest: int = LONGEST_OUTPUT) -> str:
    """All outputs of a run as one text; of a long one the beginning and the end."""
    text = ""
    for part, begins in _output_texts(outputs):
        text += f"\n{part}" if begins and text and not text.endswith("\n") else part
    return shorten(text.rstrip("\n"), longest) or "(no output)"


def shorten(text: str, longest: int) -> str:
    """The beginning and the end of a text that is too long, and how much is left out between them."""
    if len(text) <= longest:
        return text
    characters_left_out = len(text) - longest
    start, end = text[: longest // 2], text[-(longest - longest // 2) :]
    return f"{start}\n[… {characters_left_out} characters left out …]\n{end}"


def _output_texts(outputs: Sequence[Output]) -> Iterator[tuple[str, bool]]:
    """Texts, each with whether it begins a line."""
    stream = "stdout"
    for output in outputs:
        if not isinstance(output, StreamOutput):
            yield f"{_describe_output(output)}\n", True
            continue
        if output.stream != stream:
            stream = output.stream
            yield f"[{stream}]\n", True
        yield output.text, False


def _describe_output(output: DisplayOutput | ErrorOutput | StopOutput | OverflowOutput) -> str:
    match output:
        case DisplayOutput(forms=forms):
            pictures = [f"[a picture: {form}]" for form in sorted(forms) if form.startswith("image/")]
            return "\n".join([*pictures, *([forms[PLAIN_TEXT]] if PLAIN_TEXT in forms else [])])
        case ErrorOutput(traceback=traceback):
            return traceback
        case StopOutput(why=why, detail=detail, alive=alive):
            loss = "" if alive else " The interpreter is gone, with all variables."
            return f"[stopped: {why}; {detail}.{loss}]"
        case OverflowOutput(bytes=loss):
            return f"[{loss} bytes of output were over the limit, and are lost]"


InDoubtPolicy: TypeAlias = Literal["report", "ask"]
"""The policy for code that may have run before a crash: inform the agent, or ask a person."""
LONGEST_ANSWER = 200_000
LOST_RUN_NOTE = (
    "The program ended while this code ran, so nobody knows how far it came, and it was not run again. Its "
    "interpreter is gone, with all variables; files on the volume may have been written. Look, then decide."
)
NEW_INTERPRETER_NOTE = "[The interpreter had ended and was started anew. Variables from before are gone.]"


class CodeRunner:
    """Runs an agent's code in the interpreter of the open session, and tells of outputs as they come."""

    def __init__(self, workbench: Workbench, notify: Callable[[Output], None]) -> None:
        self._workbench = workbench
        self._notify = notify

    async def run(self, code: str, context: ToolContext) -> str:
        """Run code and return its output as text for a model. An ended interpreter is started anew first.

        Raises:
            InterpreterFailed: No interpreter came up.
        """
        changes = await self._workbench.attachment.ensure_interpreter()
        is_new = any(change.transition is Transition.RECREATED for change in changes)
        outputs = await self._run_code(code)
        picture_notes = await self._save_pictures(outputs, context)
        return "\n".join(
            [*([NEW_INTERPRETER_NOTE] if is_new else []), render_outputs(outputs), *picture_notes]
        )

    async def _save_pictures(self, outputs: Sequence[Output], context: ToolContext) -> list[str]:
        """Keep the pictures that code has shown, and say how."""
        pictures = [
            each
            for each in outputs
            if isinstance(each, DisplayOutput) and not PICTURE_SUFFIXES.keys().isdisjoint(each.forms)
        ]
        lines = []
        for number, picture in enumerate(pictures, 1):
            key = f"{context.key}:{number}"
            try:
                artifact = await self._workbench.attachment.artifacts.save_picture(
                    picture, name=f"picture-{number}", run=context.run, key=key
                )
                lines.append(f"[{artifact.name} is kept as artifact {artifact.id}]")
            except (InvalidArgument, TooLarge, VolumeFull) as error:
                lines.append(f"[a picture was not kept: {error}]")
        return lines

    async def evaluate_text(self, expression: str, longest: int) -> str:
        """The text that an expression gives.

        Raises:
            InvalidArgument: It gives none, or more than is wanted.
        """
        await self._workbench.attachment.ensure_interpreter()
        outputs = await self._run_code(f"print(str({expression})[:{longest + 1}], end='')", quiet=True)
        failure = next(
            (output for output in outputs if isinstance(output, ErrorOutput | StopOutput | OverflowOutput)),
            None,
        )
        if failure is not None:
            raise InvalidArgument(problem=f"The expression gives no text: {render_outputs([failure])}")
        text = "".join(output.text for output in outputs if isinstance(output, StreamOutput))
        if len(text) > longest:
            raise InvalidArgument(problem=f"The expression gives more than {longest} characters.")
        return text

    async def _run_code(self, code: str, *, quiet: bool = False) -> Sequence[Output]:
        outputs: list[Output] = []
        try:
            async for output in self._workbench.interpreter.run(code):
                outputs.append(output)
                if not quiet:
                    self._notify(output)
        except InterpreterGone as error:
            outputs.append(StopOutput(why="died", detail=error.problem, alive=False))
        return outputs


def workbench_tools(
    workbench: Workbench, runner: CodeRunner, questions: Questions, in_doubt: InDoubtPolicy
) -> list[Tool]:
    """All tools of the agent at a workbench."""
    return [
        _run_python_tool(runner, in_doubt),
        _ask_tool(runner, questions),
        *document_tools(lambda context: workbench.attachment.documents),
        *core_memory_tools(),
        *artifact_tools(lambda context: workbench.attachment.artifacts),
        _finish_tool(runner),
    ]


def _run_python_tool(runner: CodeRunner, in_doubt: InDoubtPolicy) -> Tool:
    async def run_python(code: str, context: ToolContext) -> str:
        """Run Python in the session's interpreter. Variables stay for the next call.

        Loaded documents are texts in the dict `documents`, by name. Print what you want to see: long output
        is cut in the middle. Pictures that are shown are kept as artifacts. Files in the working directory go
        away; those in the folders memory, artifacts and buffers below the environment variable
        CLEW_VOLUME stay.
        """
        return await run_code(code, context)

    async def lost_run_note(context: ToolContext) -> JSON:
        return LOST_RUN_NOTE

    run_code = runner.run
    if in_doubt == "ask":
        return tool(effect=Effect.UNKNOWN, kind="code")(run_python)
    return tool(effect=Effect.CHECKABLE, check=lost_run_note, kind="code")(run_python)


def _ask_tool(runner: CodeRunner, questions: Questions) -> Tool:
    async def recover_answer(context: ToolContext) -> str | NotHappened:
        return await questions.recover_answer(context)

    @tool(effect=Effect.CHECKABLE, check=recover_answer)
    async def ask(question: str, expression: str, context: ToolContext) -> str:
        """Have a question answered about a piece of text that is too much to print here.

        The expression is Python and gives the text, at most 40,000 characters: documents['a.md'][:30000].
        Whoever answers sees only the question and that text.
        """
        return await questions.ask(question, await runner.evaluate_text(expression, LONGEST_PIECE), context)

    return ask


def _finish_tool(runner: CodeRunner) -> Tool:
    @tool(effect=Effect.NONE)
    async def finish(answer: str = "", expression: str = "") -> dict[str, str]:
        """End the task with an answer: its text, or a Python expression that gives a long one."""
        if bool(answer) == bool(expression):
            raise InvalidArgument(problem="Give an answer or an expression, one of the two.")
        return {ANSWER: answer or await runner.evaluate_text(expression, LONGEST_ANSWER)}

    return finish
