"""Job handlers. They are found by name in a registry; nothing is imported because a row names it."""
