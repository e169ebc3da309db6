"""Callbacks beside the training: `Background`, `Every` and `BackgroundCheckpoint`."""
