"""Numbers and lists for operators."""
