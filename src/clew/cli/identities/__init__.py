"""Commands about who may use a server: tenants, workspaces, users, members, keys."""
