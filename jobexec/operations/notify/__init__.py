"""Notifications of changes: to executors, external workers, brokers and signals."""
