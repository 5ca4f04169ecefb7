"""AG-UI 1.0: the events of a thread as those of a run that a client of that protocol follows."""
