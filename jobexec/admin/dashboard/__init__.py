"""What an operator sees first: the overview of an engine above the list of tables, drawn on the server."""
