"""Job definitions, and suspensions of whole scopes."""
