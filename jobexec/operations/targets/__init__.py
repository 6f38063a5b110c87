"""The rows that an operation's target refers to."""
