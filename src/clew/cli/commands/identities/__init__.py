"""The commands for keys, users, tenants, workspaces and members."""
