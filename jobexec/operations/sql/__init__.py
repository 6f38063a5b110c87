"""Database capabilities and statements: locks, errors, inserts, time. Only this package decides by the vendor."""
