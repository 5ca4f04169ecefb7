"""Who is asking: tenants, users and keys, and how a request proves whose it is."""
