"""One run of a job, from the look at its lock to its outcome."""
