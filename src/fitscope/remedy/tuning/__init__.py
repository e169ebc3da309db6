"""`tune`: a tf.data pipeline read into stages, changed, measured, and built again."""
