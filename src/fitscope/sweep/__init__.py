"""Throughput and memory of a training over a setting: short runs of the script, in turns."""
