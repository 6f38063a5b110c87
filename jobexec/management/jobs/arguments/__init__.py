"""Arguments of the command line."""
