import keras


class StepHistory(keras.callbacks.Callback):
    """chi2 of the fit, once per block of passes over the data."""

    def __init__(self):
        super().__init__()
        self.chi2 = []

    def on_epoch_end(self, epoch, logs=None):
        self.chi2.append(logs["loss"])


class Report(keras.callbacks.Callback):
    def __init__(self, block, every=100):
        super().__init__()
        self.block, self.every = block, every

    def on_epoch_end(self, epoch, logs=None):
        done = (epoch + 1) * self.block
        if done % self.every == 0:
            print("pass %5d   chi2 %.5f" % (done, logs["loss"]))
