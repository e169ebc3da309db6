"""`fitscope layers` against ablation: what a layer is said to cost, and what the step loses without it.

    python benchmarks/layers.py [--backend tensorflow] [--model cnn]…

For each model and backend `fitscope layers` measures the step. Then, in a process that is not observed, the compiled
steps of the whole model and of the models that lack a layer are timed in turns; the difference is the truth. Layers
that cannot be taken out alone (the two halves of a feed-forward block) are taken out together. At the end the wide
and the narrow network of an article: which layer is named first, and the ratio of the steps as the accounts say it
and as `fit` shows it.

For account and ablation alike the allocator keeps its memory. By itself glibc gives blocks above 32 MB back to the
system after each step and takes them anew; then every page of them costs a fault. The step of the convolutional
network on JAX is just above that (8,300 faults, a sixth of its time), and without any one of the layers taken out
below: each ablation would save the same faults, and all of them together would save more than the step.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BACKENDS = ("tensorflow", "jax", "torch")
HERE = Path(__file__).parent
BUDGET = 25.0
SECONDS = 30.0
"""Of each ablation."""
TURN = 0.15
WITHIN = 0.20
LEAST = 0.05
KEPT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**33)}
"""What makes glibc keep its memory."""
MODELS = {
    "mlp": (("second",), ("third",), ("dropped",)),
    "cnn": (("second",), ("third",), ("normed",)),
    "lstm": (("second",),),
    "transformer": (("attention",), ("up", "down"), ("norm",)),
}
"""What is taken out of each model, in turn."""


def layers_of(name: str, left_out: tuple[str, ...] = ()) -> Any:
    """A model, without some of its layers."""
    keras: Any = importlib.import_module("keras")
    of = keras.layers

    def apply(layer: Any, value: Any) -> Any:
        return value if layer.name in left_out else layer(value)

    if name == "mlp":
        inputs = value = keras.Input((512,))
        for layer in (
            of.Dense(1024, activation="relu", name="first"),
            of.Dense(1024, activation="relu", name="second"),
            of.Dropout(0.3, name="dropped"),
            of.Dense(1024, activation="relu", name="third"),
        ):
            value = apply(layer, value)
    elif name == "cnn":
        inputs = value = keras.Input((32, 32, 3))
        for layer in (
            of.Conv2D(32, 3, padding="same", activation="relu", name="first"),
            of.Conv2D(32, 3, padding="same", activation="relu", name="second"),
            of.BatchNormalization(name="normed"),
            of.Conv2D(32, 5, padding="same", activation="relu", name="third"),
            of.GlobalAveragePooling2D(name="pooled"),
        ):
            value = apply(layer, value)
    elif name == "lstm":
        inputs = value = keras.Input((40, 64))
        for layer in (
            of.LSTM(64, return_sequences=True, name="first"),
            of.LSTM(64, return_sequences=True, name="second"),
            of.GlobalAveragePooling1D(name="pooled"),
        ):
            value = apply(layer, value)
    else:
        inputs = value = keras.Input((64, 128))
        if "attention" not in left_out:
            value = value + of.MultiHeadAttention(4, 32, name="attention")(value, value)
        value = apply(of.LayerNormalization(name="norm"), value)
        if "up" not in left_out:
            inner = of.Dense(512, activation="relu", name="up")(value)
            value = value + of.Dense(128, name="down")(inner)
        value = of.GlobalAveragePooling1D(name="pooled")(value)
    return keras.Model(inputs, of.Dense(10, activation="softmax", name="last")(value))


def article(narrow: bool) -> Any:
    """The inefficient and the efficient network of the article."""
    keras: Any = importlib.import_module("keras")
    of = keras.layers
    if not narrow:
        return keras.Sequential(
            [
                keras.Input((28, 28, 1)),
                of.Conv2D(1024, (3, 3), activation="relu", name="conv_1024"),
                of.MaxPooling2D((2, 2)),
                of.Conv2D(512, (3, 3), activation="relu", name="conv_512"),
                of.MaxPooling2D((2, 2)),
                of.Flatten(),
                of.Dense(10, activation="softmax"),
            ]
        )
    l2 = keras.regularizers.l2
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            of.Conv2D(64, (3, 3), activation="relu", kernel_regularizer=l2(0.001), name="conv_64"),
            of.BatchNormalization(),
            of.MaxPooling2D((2, 2)),
            of.Conv2D(32, (3, 3), activation="relu", kernel_regularizer=l2(0.001), name="conv_32"),
            of.BatchNormalization(),
            of.MaxPooling2D((2, 2)),
            of.Flatten(),
            of.Dropout(0.5),
            of.Dense(10, activation="softmax"),
        ]
    )


BATCH = {"mlp": 256, "cnn": 32, "lstm": 64, "transformer": 32, "wide": 32, "narrow": 32}
SHAPES = {"mlp": (512,), "cnn": (32, 32, 3), "lstm": (40, 64), "transformer": (64, 128)}


def compiled(name: str, left_out: tuple[str, ...] = ()) -> tuple[Any, Any, Any]:
    """A compiled model with a batch."""
    import numpy as np

    random_ = np.random.default_rng(0)
    model = article(name == "narrow") if name in ("wide", "narrow") else layers_of(name, left_out)
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    shape = SHAPES.get(name, (28, 28, 1))
    return model, random_.random((BATCH[name], *shape), "float32"), random_.integers(0, 10, BATCH[name])


def train(name: str, steps: int) -> None:
    """What `fitscope layers` measures; prints how long a step of `fit` takes, from the end of one to the next."""
    import keras
    import numpy as np

    ends: list[float] = []

    class Ends(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            ends.append(time.perf_counter())

    model, x, y = compiled(name)
    many = np.concatenate([x] * steps), np.concatenate([y] * steps)
    model.fit(*many, batch_size=len(x), epochs=1, verbose=0, callbacks=[Ends()])
    between = [after - before for before, after in itertools.pairwise(ends[1:])]
    print(json.dumps(statistics.median(between)))


def ablate(name: str) -> None:
    """Prints seconds of each turn for the whole model and for those that lack a layer."""
    import keras

    from fitscope.observe import backends

    backend = backends.load(keras.config.backend())
    variants: list[tuple[str, ...]] = [(), *MODELS[name]]
    steps = {}
    for left_out in variants:
        model, x, y = compiled(name, left_out)
        model.fit(x, y, batch_size=len(x), epochs=1, verbose=0)
        steps[left_out] = backend.repeat_step(model, model.train_function, _arguments(model, x, y))[0]
        for _ in range(3):
            steps[left_out]()
    times: dict[tuple[str, ...], list[float]] = {left_out: [] for left_out in variants}
    chance = random.Random(0)
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        for left_out in chance.sample(variants, len(variants)):
            found = []
            began = time.perf_counter()
            while time.perf_counter() - began < TURN or not found:
                at = time.perf_counter()
                steps[left_out]()
                found.append(time.perf_counter() - at)
            times[left_out].append(statistics.median(found))
    print(json.dumps({"+".join(left_out): found for left_out, found in times.items()}))


def _arguments(model: Any, x: Any, y: Any) -> tuple[Any, ...]:
    """What `fit` would call the compiled step with."""
    import keras

    name = keras.config.backend()
    if name == "tensorflow":
        import tensorflow as tf

        return (iter(tf.data.Dataset.from_tensors((x, y)).repeat()),)
    if name == "torch":
        return ([tuple(keras.ops.convert_to_tensor(each) for each in (x, y))],)
    state = model._get_jax_state(
        trainable_variables=True, non_trainable_variables=True, optimizer_variables=True, metrics_variables=True
    )
    return state, iter([(x, y)])


# --- the comparison ---------------------------------------------------------------------------------------


def measured(name: str, backend: str, settings: dict[str, str] | None = None) -> Any:
    """The account of a model, by `fitscope layers --json`."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(__file__, folder)
        command = [*("-m", "fitscope", "layers", "--json", "--budget", f"{BUDGET:.0f}s"), Path(__file__).name]
        return json.loads(_python([*command, "--train", name], backend, folder, settings))


def _python(words: list[str], backend: str, folder: str | None = None, settings: dict[str, str] | None = None) -> str:
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3", **(settings or {})}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout if "--json" in words else done.stdout.strip().splitlines()[-1]


def compare(name: str, backend: str) -> bool:
    """Prints the account beside the truth; says whether all that matters is near enough."""
    account = measured(name, backend, KEPT)
    sys.path.insert(0, str(HERE))
    from side_by_side import ratio

    truth = json.loads(_python([__file__, "--ablate", name], backend, settings=KEPT))
    whole = statistics.median(truth[""])
    said = {cost["name"]: cost for cost in account["layers"]}
    total = sum(cost["seconds"] for cost in account["layers"])
    print(
        f"\n{name} on {backend}: step {account['step_seconds'] * 1e3:.2f} ms by the account, {whole * 1e3:.2f} ms "
        f"when timed apart; the parts add up to {total / account['step_seconds']:.1%}"
    )
    fine = abs(total / account["step_seconds"] - 1) <= LEAST
    for left_out in MODELS[name]:
        without = truth["+".join(left_out)]
        left = ratio(without, truth[""])
        lost = 1 - left.median
        share = sum(said[each]["share"] for each in left_out)
        matters = lost >= LEAST
        off = share / lost - 1 if lost > 0 else float("inf")
        near = abs(off) <= WITHIN
        verdict = ("ok" if near else "OFF") if matters else "small"
        between = f"[{1 - left.high:.1%}, {1 - left.low:.1%}]"
        name_ = "+".join(left_out)
        print(f"  {name_:10} said {share:6.1%}, without it {lost:6.1%} {between} less: {off:+6.1%}  {verdict}")
        fine = fine and (near or not matters)
    return fine


def pair(backend: str) -> None:
    """The article's networks."""
    wide, narrow = measured("wide", backend), measured("narrow", backend)
    first = next(cost for cost in wide["layers"] if cost["part"] == "layer")
    predicted = wide["step_seconds"] / narrow["step_seconds"]
    real = float(_python([__file__, "--train", "wide", "--steps", "8"], backend))
    real /= float(_python([__file__, "--train", "narrow", "--steps", "200"], backend))
    print(f"\narticle on {backend}: {first['name']} first, {first['share']:.1%} of the step")
    print(f"  wide over narrow: {predicted:.1f} by the accounts, {real:.1f} in fit: {predicted / real - 1:+.1%}")


def main() -> None:
    """Runs what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", action="append", choices=BACKENDS)
    parser.add_argument("--model", action="append", choices=[*MODELS, "article"])
    parser.add_argument("--train", choices=list(BATCH), help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, default=5, help=argparse.SUPPRESS)
    parser.add_argument("--ablate", choices=list(MODELS), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.train:
        train(asked.train, asked.steps)
    elif asked.ablate:
        ablate(asked.ablate)
    else:
        fine = True
        for backend in asked.backend or BACKENDS:
            for name in asked.model or [*MODELS, "article"]:
                if name == "article":
                    pair(backend)
                else:
                    fine = compare(name, backend) and fine
        print("\nall within 20 %" if fine else "\nsome are off by more than 20 %")


if __name__ == "__main__":
    main()
