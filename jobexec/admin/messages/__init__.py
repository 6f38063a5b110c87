"""Messages: what is kept or delivered, and how operators publish them."""
