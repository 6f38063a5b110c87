"""Executors and deployments."""
