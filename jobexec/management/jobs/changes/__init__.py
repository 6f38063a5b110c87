"""What changes jobs."""
