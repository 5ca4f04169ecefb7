"""Writes to commit together with `Database.commit`, and the query for records."""

from clew.core.values import AppendTo, Drop, Enqueue, Finish, Put, RecordQuery, Require, Write

__all__ = ["AppendTo", "Drop", "Enqueue", "Finish", "Put", "RecordQuery", "Require", "Write"]
