"""The AI SDK's UI message stream v1, projected from the events of runs."""
