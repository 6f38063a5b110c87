"""Pages that are not rows of one table: a handler, category or tenant; a process instance; what runs now."""
