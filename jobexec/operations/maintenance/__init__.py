"""The work of the executor's loops besides running jobs."""
