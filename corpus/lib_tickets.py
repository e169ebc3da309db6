"""Text side of the ticket router: cleaning, stemming, ids."""
import re
import unicodedata

import numpy as np
import tensorflow as tf

PAD, UNK = 0, 1
MAX_LEN = 120

_url = re.compile(r"https?://\S+")
_num = re.compile(r"\d+")
_other = re.compile(r"[^a-z<>]+")
_suffix = re.compile(r"(ing|ed|ly|s)$")


class TicketEncoder:
    def __init__(self, words):
        self.ids = {w: i + 2 for i, w in enumerate(words)}

    @property
    def size(self):
        return len(self.ids) + 2

    def _encode(self, text):
        s = unicodedata.normalize("NFKC", text.numpy().decode("utf-8")).lower()
        s = _url.sub("<url>", s)
        s = _num.sub("<num>", s)
        s = _other.sub(" ", s)
        out = []
        for tok in s.split():
            stem = _suffix.sub("", tok)
            out.append(self.ids.get(stem, UNK))
        return np.asarray(out[:MAX_LEN], dtype=np.int32)

    def encode(self, text, label):
        ids = tf.py_function(self._encode, [text], tf.int32)
        ids.set_shape([None])
        return ids, label
