"""What is kept of jobs beside their rows: log, incidents, task results."""
