"""Workers as programs, each with the client library of a language."""
