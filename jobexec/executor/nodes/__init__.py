"""The executor's node in the cluster: lease, scope, counters."""
