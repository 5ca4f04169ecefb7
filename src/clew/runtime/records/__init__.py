"""Records that a runtime keeps beside a thread: runs, episodes, steps and events."""
