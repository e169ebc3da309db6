"""`materialize`: the deterministic part of a preprocessing, cut off, written to disk, and served from there."""
