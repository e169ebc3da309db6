"""Remedies: objects that remove the causes of slow training. Each works alone, with no profiler running.

`callbacks` takes work out of the training thread, `tuning` makes tf.data pipelines faster, `storing` does
preprocessing once, and `loading` makes batches beside the training. A store is filled by what `loading` has;
otherwise the four do not know one another.
"""
