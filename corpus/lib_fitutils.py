import keras


class StepHistory(keras.callbacks.Callback):
    """chi2 of the fit after each pass over the data."""

    def __init__(self):
        super().__init__()
        self.chi2 = []

    def on_epoch_end(self, epoch, logs=None):
        self.chi2.append(logs["loss"])


class Report(keras.callbacks.Callback):
    def __init__(self, every=100):
        super().__init__()
        self.every = every

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.every == 0:
            print("epoch %5d   chi2 %.5f" % (epoch + 1, logs["loss"]))
