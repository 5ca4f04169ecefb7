"""The state of an agent: its schema, reducers, inputs, logs and upgrades."""
