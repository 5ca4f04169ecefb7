"""``python -m holdfast.cli`` is the same command."""

from holdfast.cli import main

main()
