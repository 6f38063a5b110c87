"""Executor nodes: leases, deployments, the cluster lock."""
