"""Threads, wake-ups and connections of long-running processes: executors and gateways."""
