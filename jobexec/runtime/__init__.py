"""Threads, wake-ups and connections of processes that run for long: executors and gateways."""
