"""Operators' operations on jobs."""
