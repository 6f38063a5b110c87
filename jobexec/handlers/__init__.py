"""What a job does. Handlers are found by name in a registry; nothing is imported because a row says so."""
