"""Where threads are kept: in memory, in an SQLite file, in PostgreSQL."""
