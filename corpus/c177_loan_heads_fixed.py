from dataclasses import dataclass, field
import time

import numpy as np
import keras
from keras import layers, ops


@dataclass
class Config:
    rows: int = 3840
    numeric: int = 24
    cardinalities: tuple = (12, 50, 7, 90)
    width: int = 96
    blocks: int = 3
    batch_size: int = 128
    epochs: int = 4
    lr: float = 2e-3
    seed: int = 11
    debug: bool = False
    loss_weights: dict = field(default_factory=lambda: {"default": 1.0, "amount": 0.5})


def make_loans(cfg):
    rng = np.random.default_rng(cfg.seed)
    num = rng.standard_normal((cfg.rows, cfg.numeric)).astype("float32")
    cat = np.stack([rng.integers(0, c, cfg.rows) for c in cfg.cardinalities], 1).astype("int32")
    score = num[:, :6].sum(1) + 0.3 * cat[:, 0] - 1.5
    y_default = (score + rng.standard_normal(cfg.rows) > 0).astype("float32")[:, None]
    y_amount = (0.4 * num[:, 3] ** 2 + 0.02 * cat[:, 3] + 0.1 * rng.standard_normal(cfg.rows)).astype("float32")[:, None]
    return {"num": num, "cat": cat}, {"default": y_default, "amount": y_amount}


class GatedBlock(layers.Layer):
    def __init__(self, width, **kw):
        super().__init__(**kw)
        self.norm = layers.LayerNormalization()
        self.up = layers.Dense(2 * width)
        self.down = layers.Dense(width)
        self.drop = layers.Dropout(0.1)

    def build(self, shape):
        self.norm.build(shape)
        self.up.build(shape)
        self.down.build(tuple(shape[:-1]) + (self.up.units // 2,))
        self.built = True

    def call(self, x, training=False):
        a, b = ops.split(self.up(self.norm(x)), 2, axis=-1)
        return x + self.drop(self.down(a * ops.silu(b)), training=training)


class LoanModel(keras.Model):
    def __init__(self, cfg):
        super().__init__()
        self.tables = [layers.Embedding(c, 8, name=f"emb_{i}") for i, c in enumerate(cfg.cardinalities)]
        self.stem = layers.Dense(cfg.width)
        self.blocks = [GatedBlock(cfg.width) for _ in range(cfg.blocks)]
        self.head_default = layers.Dense(1, activation="sigmoid")
        self.head_amount = layers.Dense(1)

    def call(self, inputs, training=False):
        parts = [inputs["num"]] + [t(inputs["cat"][:, i]) for i, t in enumerate(self.tables)]
        x = self.stem(ops.concatenate(parts, axis=-1))
        for block in self.blocks:
            x = block(x, training=training)
        return {"default": self.head_default(x), "amount": self.head_amount(x)}


def run(cfg=Config()):
    keras.utils.set_random_seed(cfg.seed)
    x, y = make_loans(cfg)
    model = LoanModel(cfg)
    model.compile(
        optimizer=keras.optimizers.AdamW(cfg.lr, weight_decay=1e-4),
        loss={"default": "binary_crossentropy", "amount": "mse"},
        loss_weights=cfg.loss_weights,
        metrics={"default": ["auc"], "amount": ["mae"]},
        run_eagerly=cfg.debug,
    )
    t0 = time.perf_counter()
    model.fit(x, y, batch_size=cfg.batch_size, epochs=cfg.epochs, verbose=2)
    return time.perf_counter() - t0


if __name__ == "__main__":
    print("train time: %.2f s" % run())
