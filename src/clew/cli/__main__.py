"""``python -m clew.cli`` is the same command."""

from clew.cli import main

main()
