"""pytest as tests run it, in processes of their own: with the plugins it needs and no others."""

from __future__ import annotations


def only_plugins(*names: str) -> dict[str, str]:
    """Settings for a run that loads just these: all that are installed take five seconds of processor."""
    return {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": " ".join(f"-p {name}" for name in names),
    }
