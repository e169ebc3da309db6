import os
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
from collections import deque
import numpy as np
import keras
from keras import layers
from lib_boardgame import FourRow, TreeSearch

args = {
    "iterations": 3,
    "games_per_iteration": 2,
    "sims": 4,
    "epochs": 10,
    "batch_size": 32,
    "channels": 96,
    "lr": 1e-3,
}


class NNetWrapper:
    def __init__(self, game, args):
        self.game, self.args = game, args
        board = keras.Input((game.size, game.size, 2))
        x = board
        for _ in range(3):
            x = layers.Conv2D(args["channels"], 3, padding="same", use_bias=False)(x)
            x = layers.BatchNormalization(momentum=0.9)(x)
            x = layers.ReLU()(x)
        x = layers.Flatten()(x)
        x = layers.Dense(256, activation="relu")(x)
        x = layers.Dropout(0.3)(x)
        pi = layers.Dense(game.actions, activation="softmax", name="pi")(x)
        v = layers.Dense(1, activation="tanh", name="v")(x)
        self.model = keras.Model(board, [pi, v])
        self.model.compile(optimizer=keras.optimizers.Adam(args["lr"]),
                           loss=["categorical_crossentropy", "mean_squared_error"])

    def encode(self, boards):
        boards = np.asarray(boards).reshape(-1, self.game.size, self.game.size)
        return np.stack([boards == 1, boards == -1], axis=-1).astype("float32")

    def predict(self, board):
        pi, v = self.model.predict_on_batch(self.encode(board))
        return pi[0], float(v[0, 0])

    def train(self, examples):
        boards, pis, vs = zip(*examples)
        x = self.encode(np.array(boards))
        pis = np.array(pis, dtype="float32")
        vs = np.array(vs, dtype="float32")[:, None]
        return self.model.fit(x, [pis, vs], batch_size=self.args["batch_size"],
                              epochs=self.args["epochs"], verbose=0)


class Coach:
    def __init__(self, game, net, args, seed=63):
        self.game, self.net, self.args = game, net, args
        self.rng = np.random.default_rng(seed)
        self.history = deque(maxlen=20000)

    def play_one(self):
        tree = TreeSearch(self.game, self.net, self.args["sims"])
        board, record, player = self.game.start(), [], 1
        while True:
            pi = tree.policy(board)
            record.extend((b, p, player) for b, p in self.game.symmetries(board, pi))
            board = self.game.play(board, int(self.rng.choice(len(pi), p=pi)))
            player = -player
            result = self.game.ended(board)
            if result != 0:
                z = 0.0 if result > 0 else -1.0
                return [(b, p, z if who == player else -z) for b, p, who in record]

    def learn(self):
        for it in range(self.args["iterations"]):
            for _ in range(self.args["games_per_iteration"]):
                self.history.extend(self.play_one())
            h = self.net.train(list(self.history))
            print("iteration %d  examples %d  loss %.4f" % (it, len(self.history), h.history["loss"][-1]))


keras.utils.set_random_seed(63)
game = FourRow()
net = NNetWrapper(game, args)
coach = Coach(game, net, args)
t0 = time.time()
coach.learn()
print("train time: %.2f s" % (time.time() - t0))
