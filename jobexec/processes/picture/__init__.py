"""A picture of a process: laid out and drawn on the server, so that it needs no script."""
