"""What every test can use or must keep to: a PostgreSQL server, marks that name promises, no thread left."""

from __future__ import annotations

pytest_plugins = ["tests.support.left_behind", "tests.support.promises", "tests.support.shared_postgres"]
