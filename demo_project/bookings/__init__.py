"""The one app of the demo: visitors book a trip, jobs get the tickets."""
