"""One run of a job, from checking its lock to its outcome."""
