"""Output: lines, tables, JSON objects, outcomes."""
