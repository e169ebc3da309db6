"""Forms of a report: they show, they never compute."""
