"""What is read from the command line."""
