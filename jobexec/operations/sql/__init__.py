"""What databases can do, and how: locks, errors, inserts, moments. The only room that names a vendor."""
