"""Database capabilities and statements: locks, errors, inserts, time. The only package that names a vendor."""
