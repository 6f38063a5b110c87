"""The verbs on processes, in the caller's transaction."""
