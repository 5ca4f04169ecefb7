"""Preparation of a remote context before the first code runs. A script: it is sent, not imported."""

import base64
import builtins
import io
import json
import os
import resource
import sys
from typing import Any, NoReturn

FORMS = {
    "_repr_html_": "text/html",
    "_repr_markdown_": "text/markdown",
    "_repr_latex_": "text/latex",
    "_repr_svg_": "image/svg+xml",
    "_repr_png_": "image/png",
    "_repr_jpeg_": "image/jpeg",
}
LIMITS = {"MEMORY": resource.RLIMIT_DATA, "FILE_SIZE": resource.RLIMIT_FSIZE}
"""What it is sent with, and what that limits."""
PIECE_CHARACTERS = 16384
"""Characters in one piece: a line over a megabyte is more than the other side reads."""


def forms_of(value: Any) -> dict[str, str]:
    """A value in every form it has."""
    forms: dict[str, Any] = {"text/plain": repr(value)}
    forms |= {kind: getattr(value, name)() for name, kind in FORMS.items() if hasattr(value, name)}
    if hasattr(value, "savefig"):
        picture = io.BytesIO()
        value.savefig(picture, format="png")
        forms["image/png"] = picture.getvalue()
    return {
        kind: base64.b64encode(form).decode() if isinstance(form, bytes) else str(form)
        for kind, form in forms.items()
        if form is not None
    }


def show(value: Any, *, result: bool) -> None:
    """Write a value where it is found again in what is printed."""
    message = f"\x1e\x1eclew:{json.dumps({'result': result, 'forms': forms_of(value)})}\x1e"
    for start in range(0, len(message), PIECE_CHARACTERS):
        sys.stdout.write(message[start : start + PIECE_CHARACTERS])
        sys.stdout.flush()


def display(*values: Any) -> None:
    """Show values on the way."""
    for value in values:
        show(value, result=False)


def show_result(value: Any) -> None:
    """Show the value of the last expression, unless it has none."""
    if value is not None:
        show(value, result=True)


def refuse_input(*_: object) -> NoReturn:
    """Nobody answers: what the context reads is commands, not a person."""
    raise EOFError("input is refused: there is nobody who could answer")


def prepare_context() -> None:
    """Make all this known to the code, and set the limits."""
    vars(builtins).update(display=display, __clew_result__=show_result, input=refuse_input)
    for name, limit in LIMITS.items():
        resource.setrlimit(limit, (globals()[name], globals()[name]))


if __name__ == "__main__":
    prepare_context()
    print(os.getpid())  # noqa: T201  # the number by which it is interrupted
