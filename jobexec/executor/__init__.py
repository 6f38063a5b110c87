"""The executor's loops, threads and processes. Importing it starts nothing."""
