"""What is written: lines, tables, objects, outcomes."""
