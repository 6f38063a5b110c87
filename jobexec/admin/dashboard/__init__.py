"""The dashboard: the overview of an engine above the list of tables, rendered on the server."""
