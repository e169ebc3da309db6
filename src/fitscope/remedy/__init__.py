"""Remedies: objects that remove the causes of slow training. Each works alone, with no profiler running."""
