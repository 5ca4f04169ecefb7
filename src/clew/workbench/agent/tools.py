"""What an agent at the workbench can do: run code, ask about pieces of text, and end with an answer."""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Literal, TypeAlias

from clew.core.encoding import JSON
from clew.core.errors import InterpreterGone, InvalidArgument, TooLarge, VolumeFull
from clew.runtime.model.boundary import ModelWrapper, stream_parts
from clew.runtime.model.messages import CALL, RESULT, Message
from clew.runtime.model.protocol import Part, Reply, Request, Text, Usage
from clew.runtime.tools.tool import Effect, Tool, ToolContext, Unfinished, tool
from clew.workbench.agent.questions import LONGEST as LONGEST_PIECE
from clew.workbench.agent.questions import Questions
from clew.workbench.artifacts import FORMS, artifact_tools
from clew.workbench.core_memory import core_memory_tools
from clew.workbench.documents.tools import document_tools
from clew.workbench.interpreter.port import Dropped, Output, Printed, Raised, Shown, Stopped
from clew.workbench.session.reset import Transition
from clew.workbench.session.session import Workbench

FINISH = "finish"
ANSWER = "answer"


class Finishing(ModelWrapper):
    """A model whose turn is over once it has called ``finish``: what it finished with is its last word.

    It is read from the messages, so it is the same after a crash.
    """

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """The model's reply, or the answer that it has finished with."""
        answer = finished(request.messages)
        if answer is not None:
            yield Text(answer)
            yield Reply(text=answer, usage=Usage())
            return
        async with aclosing(stream_parts(self._model, request)) as parts:
            async for part in parts:
                yield part


def finished(messages: Sequence[Message]) -> str | None:
    """The answer that the newest calls have finished with, if one of them has."""
    results: list[Message] = []
    for message in reversed(messages):
        if message.kind == RESULT:
            results.append(message)
        elif message.kind == CALL:
            found = next((each for each in results if each.call == message.call), None)
            if message.name == FINISH and found is not None and isinstance(found.content, dict):
                answer = found.content.get(ANSWER)
                return answer if isinstance(answer, str) else None
        elif message.role != "system":  # what it was told of its interpreter since does not undo it
            return None
    return None


LONGEST = 8_000
"""Characters of output that a model is told of one run."""
PLAIN = "text/plain"


def rendered(outputs: Sequence[Output], longest: int = LONGEST) -> str:
    """All outputs of a run as one text; of a long one the beginning and the end."""
    text = ""
    for part, begins in _parts(outputs):
        text += f"\n{part}" if begins and text and not text.endswith("\n") else part
    return shortened(text.rstrip("\n"), longest) or "(no output)"


def shortened(text: str, longest: int) -> str:
    """The beginning and the end of a text that is too long, and how much is left out between them."""
    if len(text) <= longest:
        return text
    left = len(text) - longest
    return f"{text[: longest // 2]}\n[… {left} characters left out …]\n{text[-(longest - longest // 2) :]}"


def _parts(outputs: Sequence[Output]) -> Iterator[tuple[str, bool]]:
    """Texts, each with whether it begins a line."""
    stream = "stdout"
    for output in outputs:
        if not isinstance(output, Printed):
            yield f"{_said(output)}\n", True
            continue
        if output.stream != stream:
            stream = output.stream
            yield f"[{stream}]\n", True
        yield output.text, False


def _said(output: Shown | Raised | Stopped | Dropped) -> str:
    match output:
        case Shown(forms=forms):
            pictures = [f"[a picture: {form}]" for form in sorted(forms) if form.startswith("image/")]
            return "\n".join([*pictures, *([forms[PLAIN]] if PLAIN in forms else [])])
        case Raised(traceback=traceback):
            return traceback
        case Stopped(why=why, detail=detail, alive=alive):
            lost = "" if alive else " The interpreter is gone, with all variables."
            return f"[stopped: {why}; {detail}.{lost}]"
        case Dropped(bytes=lost):
            return f"[{lost} bytes of output were over the limit, and are lost]"


InDoubt: TypeAlias = Literal["report", "ask"]
"""What becomes of code that may have run before a crash: the agent is told, or a person is asked."""
LONGEST_ANSWER = 200_000
LOST = (
    "The program ended while this code ran, so nobody knows how far it came, and it was not run again. Its "
    "interpreter is gone, with all variables; files on the volume may have been written. Look, then decide."
)
ANEW = "[The interpreter had ended and was started anew. Variables from before are gone.]"


class Code:
    """Runs an agent's code in the interpreter of the open session, and tells of outputs as they come."""

    def __init__(self, bench: Workbench, told: Callable[[Output], None]) -> None:
        self._bench = bench
        self._told = told

    async def run(self, code: str, context: ToolContext) -> str:
        """What code gave, as a model is told it. An interpreter that has ended is started anew first.

        Raises:
            InterpreterFailed: No interpreter came up.
        """
        changes = await self._bench.attachment.ready()
        anew = any(change.transition is Transition.RECREATED for change in changes)
        outputs = await self._outputs(code)
        kept = await self._kept(outputs, context)
        return "\n".join([*([ANEW] if anew else []), rendered(outputs), *kept])

    async def _kept(self, outputs: Sequence[Output], context: ToolContext) -> list[str]:
        """Keep the pictures that code has shown, and say how."""
        shown = [
            each for each in outputs if isinstance(each, Shown) and not FORMS.keys().isdisjoint(each.forms)
        ]
        lines = []
        for number, picture in enumerate(shown, 1):
            key = f"{context.key}:{number}"
            try:
                artifact = await self._bench.attachment.artifacts.save_picture(
                    picture, name=f"picture-{number}", run=context.run, key=key
                )
                lines.append(f"[{artifact.name} is kept as artifact {artifact.id}]")
            except (InvalidArgument, TooLarge, VolumeFull) as error:
                lines.append(f"[a picture was not kept: {error}]")
        return lines

    async def text(self, expression: str, longest: int) -> str:
        """The text that an expression gives.

        Raises:
            InvalidArgument: It gives none, or more than is wanted.
        """
        await self._bench.attachment.ready()
        outputs = await self._outputs(f"print(str({expression})[:{longest + 1}], end='')", quiet=True)
        wrong = next((output for output in outputs if isinstance(output, Raised | Stopped | Dropped)), None)
        if wrong is not None:
            raise InvalidArgument(problem=f"The expression gives no text: {rendered([wrong])}")
        text = "".join(output.text for output in outputs if isinstance(output, Printed))
        if len(text) > longest:
            raise InvalidArgument(problem=f"The expression gives more than {longest} characters.")
        return text

    async def _outputs(self, code: str, *, quiet: bool = False) -> Sequence[Output]:
        outputs: list[Output] = []
        try:
            async for output in self._bench.interpreter.run(code):
                outputs.append(output)
                if not quiet:
                    self._told(output)
        except InterpreterGone as error:
            outputs.append(Stopped(why="died", detail=error.problem, alive=False))
        return outputs


def tools_of(bench: Workbench, code: Code, questions: Questions, in_doubt: InDoubt) -> list[Tool]:
    """All tools of the agent at a workbench."""
    return [
        _run_python(code, in_doubt),
        _ask(code, questions),
        *document_tools(lambda context: bench.attachment.documents),
        *core_memory_tools(),
        *artifact_tools(lambda context: bench.attachment.artifacts),
        _finish(code),
    ]


def _run_python(code: Code, in_doubt: InDoubt) -> Tool:
    async def run_python(code: str, context: ToolContext) -> str:
        """Run Python in the session's interpreter. Variables stay for the next call.

        Loaded documents are texts in the dict `documents`, by name. Print what you want to see: long output
        is cut in the middle. Pictures that are shown are kept as artifacts. Files in the working directory go
        away; those in the folders memory, artifacts and buffers below the environment variable
        CLEW_VOLUME stay.
        """
        return await running(code, context)

    async def lost(context: ToolContext) -> JSON:
        return LOST

    running = code.run
    if in_doubt == "ask":
        return tool(effect=Effect.UNKNOWN, kind="code")(run_python)
    return tool(effect=Effect.CHECKABLE, check=lost, kind="code")(run_python)


def _ask(code: Code, questions: Questions) -> Tool:
    async def found(context: ToolContext) -> str | Unfinished:
        return await questions.found(context)

    @tool(effect=Effect.CHECKABLE, check=found)
    async def ask(question: str, expression: str, context: ToolContext) -> str:
        """Have a question answered about a piece of text that is too much to print here.

        The expression is Python and gives the text, at most 40,000 characters: documents['a.md'][:30000].
        Whoever answers sees only the question and that text.
        """
        return await questions.ask(question, await code.text(expression, LONGEST_PIECE), context)

    return ask


def _finish(code: Code) -> Tool:
    @tool(effect=Effect.NONE)
    async def finish(answer: str = "", expression: str = "") -> dict[str, str]:
        """End the task with an answer: its text, or a Python expression that gives a long one."""
        if bool(answer) == bool(expression):
            raise InvalidArgument(problem="Give an answer or an expression, one of the two.")
        return {ANSWER: answer or await code.text(expression, LONGEST_ANSWER)}

    return finish
