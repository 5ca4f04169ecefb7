"""Values and pure functions: what a thread is and how it changes. No I/O."""
