"""The machine examined: what it has, what the backends see of it, what it reaches."""
