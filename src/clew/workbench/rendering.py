"""What code gave, as a model is told it: short enough for a prompt, and nothing left out in silence."""

from collections.abc import Iterator, Sequence

from clew.workbench.interpreter.port import Dropped, Output, Printed, Raised, Shown, Stopped

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
