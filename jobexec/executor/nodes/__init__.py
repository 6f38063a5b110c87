"""The node that an executor is in the cluster: lease, scope, counters."""
