"""Executors: leases, deployments, the lock of the cluster."""
