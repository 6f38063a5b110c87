"""Messages: publish them, deliver them to waiting jobs, and end waits that time out."""
