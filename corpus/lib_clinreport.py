import numpy as np
import keras
from sklearn.metrics import average_precision_score, roc_auc_score


def interval(score, y, p, draws, rng):
    values = []
    for _ in range(draws):
        rows = rng.integers(0, len(y), len(y))
        if y[rows].min() != y[rows].max():
            values.append(score(y[rows], p[rows]))
    return np.percentile(values, [2.5, 97.5])


class ClinicalReport(keras.callbacks.Callback):
    """AUROC and AUPRC of the held-out patients, with 95 % limits."""

    def __init__(self, x, y, draws=250):
        super().__init__()
        self.x, self.y, self.draws = x, y, draws
        self.rng = np.random.default_rng(7)
        self.rows = []

    def scores(self):
        return self.model.predict(self.x, batch_size=1024, verbose=0)[:, 0]

    def line(self, title, p):
        parts = [title]
        for name, score in (("auroc", roc_auc_score), ("auprc", average_precision_score)):
            low, high = interval(score, self.y, p, self.draws, self.rng)
            parts.append("%s %.3f (%.3f to %.3f)" % (name, score(self.y, p), low, high))
        return "  ".join(parts)

    def on_epoch_end(self, epoch, logs=None):
        p = self.scores()
        self.rows.append(roc_auc_score(self.y, p))
        print(self.line("epoch %d" % (epoch + 1), p))

    def on_train_end(self, logs=None):
        print("best auroc %.3f" % max(self.rows))
