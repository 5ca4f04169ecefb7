"""Writes to commit together with `Database.commit`, and the queries for records."""

from clew.core.values import AppendTo, Drop, Enqueue, Finish, Put, RecordQuery, Require, VectorQuery, Write

__all__ = ["AppendTo", "Drop", "Enqueue", "Finish", "Put", "RecordQuery", "Require", "VectorQuery", "Write"]
