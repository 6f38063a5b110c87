"""Moves the tokens of process instances. Pure Python: what it changes is a value that somebody else stores."""
