"""Messages of any framework as plain ones."""
