"""What every test can use: a PostgreSQL server, and the marks that name promises."""

from __future__ import annotations

pytest_plugins = ["tests.support.promises", "tests.support.shared_postgres"]
