"""The only SQL of a step: lock, load, flush; and the jobs that a step makes or takes away."""
