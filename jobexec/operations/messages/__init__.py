"""Messages: publish them, deliver them to the jobs that wait, and end the waits whose time is over."""
