"""The stores: in memory, in an SQLite file, in PostgreSQL."""
