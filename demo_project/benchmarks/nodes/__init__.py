"""Processes that a case starts, and what they report."""
