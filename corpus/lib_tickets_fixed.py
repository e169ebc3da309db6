"""Text side of the ticket router: cleaning, stemming, ids."""
import tensorflow as tf

PAD, UNK = 0, 1
MAX_LEN = 120


class TicketEncoder:
    def __init__(self, words):
        words = list(words)
        self.size = len(words) + 2
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(tf.constant(words), tf.range(2, len(words) + 2, dtype=tf.int32)), UNK)

    def encode(self, text, label):
        s = tf.strings.lower(text)
        s = tf.strings.regex_replace(s, r"https?://\S+", "<url>")
        s = tf.strings.regex_replace(s, r"\d+", "<num>")
        s = tf.strings.regex_replace(s, r"[^a-z<>]+", " ")
        toks = tf.strings.split(s)
        stems = tf.strings.regex_replace(toks, r"(ing|ed|ly|s)$", "")
        return self.table.lookup(stems)[:MAX_LEN], label
