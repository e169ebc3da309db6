"""Double DQN on a little falling-ball game (frames of 20x20, last two stacked)."""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import random
import time
from collections import deque

import numpy as np
import keras
from keras import layers

SIZE = 20
EPISODES = 26


class Catch:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.ball = [0, int(self.rng.integers(0, SIZE))]
        self.paddle = SIZE // 2
        self.last = np.zeros((SIZE, SIZE), "float32")
        return self.observe()

    def observe(self):
        frame = np.zeros((SIZE, SIZE), "float32")
        frame[self.ball[0], self.ball[1]] = 1.0
        frame[SIZE - 1, max(0, self.paddle - 1):self.paddle + 2] = 1.0
        out = np.stack([self.last, frame], axis=-1)
        self.last = frame
        return out[None]

    def step(self, action):
        self.paddle = int(np.clip(self.paddle + action - 1, 1, SIZE - 2))
        self.ball[0] += 1
        done = self.ball[0] == SIZE - 1
        reward = 0.0
        if done:
            reward = 1.0 if abs(self.ball[1] - self.paddle) <= 1 else -1.0
        return self.observe(), reward, done


class DDQNAgent:
    def __init__(self, n_actions=3):
        self.n_actions = n_actions
        self.memory = deque(maxlen=2000)
        self.gamma = 0.95
        self.epsilon = 1.0
        self.epsilon_min = 0.05
        self.epsilon_decay = 0.99
        self.model = self._build_model()
        self.target_model = self._build_model()
        self.update_target_model()

    def _build_model(self):
        model = keras.Sequential([
            keras.Input((SIZE, SIZE, 2)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, strides=2, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(self.n_actions),
        ])
        model.compile(loss="huber", optimizer=keras.optimizers.Adam(5e-4))
        return model

    def update_target_model(self):
        self.target_model.set_weights(self.model.get_weights())

    def memorize(self, *transition):
        self.memory.append(transition)

    def act(self, state):
        if random.random() <= self.epsilon:
            return random.randrange(self.n_actions)
        return int(np.argmax(self.model.predict(state, verbose=0)[0]))

    def replay(self, batch_size):
        minibatch = random.sample(self.memory, batch_size)
        states, targets = [], []
        for state, action, reward, next_state, done in minibatch:
            target = self.model.predict(state, verbose=0)[0]
            if done:
                target[action] = reward
            else:
                best = np.argmax(self.model.predict(next_state, verbose=0)[0])
                t = self.target_model.predict(next_state, verbose=0)[0]
                target[action] = reward + self.gamma * t[best]
            states.append(state[0])
            targets.append(target)
        loss = self.model.train_on_batch(np.stack(states), np.stack(targets))
        self.epsilon = max(self.epsilon_min, self.epsilon * self.epsilon_decay)
        return float(np.asarray(loss).ravel()[0])


if __name__ == "__main__":
    random.seed(7)
    keras.utils.set_random_seed(7)
    env, agent = Catch(7), DDQNAgent()
    batch_size = 64

    # a few random games first, so that the memory is not empty
    while len(agent.memory) < 4 * batch_size:
        state, done = env.reset(), False
        while not done:
            action = random.randrange(3)
            nxt, reward, done = env.step(action)
            agent.memorize(state, action, reward, nxt, done)
            state = nxt

    t0 = time.time()
    for e in range(EPISODES):
        state, done, losses, score = env.reset(), False, [], 0
        k = 0
        while not done:
            action = agent.act(state)
            nxt, reward, done = env.step(action)
            agent.memorize(state, action, reward, nxt, done)
            state, score, k = nxt, reward, k + 1
            if k % 4 == 0:
                losses.append(agent.replay(batch_size))
        agent.update_target_model()
        print("episode: %d/%d, score: %+d, loss: %.4f, e: %.2f" % (e + 1, EPISODES, score, np.mean(losses), agent.epsilon))
    print("train time: %.2f s" % (time.time() - t0))
