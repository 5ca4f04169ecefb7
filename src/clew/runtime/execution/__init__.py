"""The execution of turns: scheduled, started, run, resumed."""
