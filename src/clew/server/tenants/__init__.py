"""The runtimes, incognito threads and feeds of each tenant, and the agent that serves them."""
