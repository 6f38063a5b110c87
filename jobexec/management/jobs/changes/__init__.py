"""Actions that change jobs."""
