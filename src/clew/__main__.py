"""``python -m clew`` is the command."""

from clew.cli import main

if __name__ == "__main__":
    main()
