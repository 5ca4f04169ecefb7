"""Work beside the turns: the sweeper, recovery, cancelling, idle threads, rewinds."""
