"""Commands of processes."""
