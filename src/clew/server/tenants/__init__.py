"""What a server keeps for each tenant: runtimes, incognito threads, agents, feeds."""
