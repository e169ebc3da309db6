"""The folder that stands first on the script's PYTHONPATH."""
