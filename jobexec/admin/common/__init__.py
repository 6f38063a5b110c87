"""What the pages of all tables share."""
