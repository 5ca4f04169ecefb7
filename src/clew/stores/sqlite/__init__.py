"""The store in an SQLite file: one machine, any number of processes."""
