"""Cases about full tables, timers, retries, batches, and executors that have nothing or run for long."""
