"""New jobs."""
