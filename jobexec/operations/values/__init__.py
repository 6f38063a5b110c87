"""What travels between the rooms. Nothing here asks the database."""
