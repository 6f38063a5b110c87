"""Primitives on locked job rows: move, remove, exclusive locks, suspensions."""
