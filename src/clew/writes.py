"""What can be committed together with `Database.commit`, and how records are asked for."""

from clew.core.values import AppendTo, Drop, Enqueue, Finish, Put, RecordQuery, Require, Write

__all__ = ["AppendTo", "Drop", "Enqueue", "Finish", "Put", "RecordQuery", "Require", "Write"]
