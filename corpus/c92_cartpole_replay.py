import os
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import random
import time
from collections import deque

import keras
import numpy as np


class Pole:
    """Made up; four numbers, two actions."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.state = self.rng.normal(0, 0.05, 4).astype("float32")
        return self.state[None]

    def step(self, action):
        push = 0.1 if action else -0.1
        self.state = (self.state + [push * 0.1, push, -push * 0.1, -push] + self.rng.normal(0, 0.02, 4)).astype("float32")
        done = bool(abs(self.state[2]) > 0.4 or abs(self.state[0]) > 2.4)
        return self.state[None], -10.0 if done else 1.0, done


class DQNAgent:
    def __init__(self, state_size, action_size):
        self.action_size = action_size
        self.memory = deque(maxlen=2000)
        self.gamma, self.epsilon = 0.95, 0.3
        self.model = keras.Sequential([
            keras.Input((state_size,)),
            keras.layers.Dense(24, activation="relu"),
            keras.layers.Dense(24, activation="relu"),
            keras.layers.Dense(action_size),
        ])
        self.model.compile(loss="mse", optimizer=keras.optimizers.Adam(1e-3))

    def act(self, state):
        if np.random.rand() <= self.epsilon:
            return random.randrange(self.action_size)
        return int(np.argmax(self.model.predict(state, verbose=0)[0]))

    def replay(self, batch_size):
        minibatch = random.sample(self.memory, batch_size)
        states, targets = [], []
        for state, action, reward, next_state, done in minibatch:
            target = reward
            if not done:
                target = reward + self.gamma * np.amax(self.model.predict(next_state, verbose=0)[0])
            target_f = self.model.predict(state, verbose=0)[0]
            target_f[action] = target
            states.append(state[0])
            targets.append(target_f)
        return self.model.train_on_batch(np.array(states), np.array(targets))


def play(agent, env, steps, batch_size=16, every=8):
    state = env.reset()
    for t in range(steps):
        action = agent.act(state)
        next_state, reward, done = env.step(action)
        agent.memory.append((state, action, reward, next_state, done))
        state = env.reset() if done else next_state
        if len(agent.memory) > batch_size and t % every == 0:
            loss = agent.replay(batch_size)
    return loss


if __name__ == "__main__":
    random.seed(92)
    np.random.seed(92)
    keras.utils.set_random_seed(92)
    start = time.time()
    loss = play(DQNAgent(4, 2), Pole(92), steps=50)
    print("loss", float(loss))
    print("train time: %.1f s" % (time.time() - start))
