"""`Loader`: batches made beside the training, by threads or processes."""
