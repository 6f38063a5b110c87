"""Records about jobs besides their rows: log, incidents, task results."""
