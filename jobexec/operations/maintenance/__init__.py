"""What the executor's loops do beside running jobs."""
