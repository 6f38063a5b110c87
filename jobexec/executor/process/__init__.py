"""The process around an executor: signals, children, limits, health."""
