"""The loops of an executor, one a file."""
