"""The loops of an executor, one file each."""
