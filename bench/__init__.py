"""Speed, measured: us beside the raw driver and beside the stores people use today, in one run."""
