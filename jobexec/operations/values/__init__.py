"""Values that the packages pass to each other. Nothing here queries the database."""
