"""Device traces: what a backend's own profiler wrote, here or elsewhere, read without that backend."""
