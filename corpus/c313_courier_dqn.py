"""Double DQN for a courier on a city grid (pick up, deliver, mind the battery)."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import argparse
import collections
import random
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers


class CourierGrid:
    MOVES = [(0, 1), (0, -1), (1, 0), (-1, 0), (0, 0)]

    def __init__(self, size=7, seed=313):
        self.size = size
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.pos = self.rng.integers(0, self.size, 2)
        self.parcel = self.rng.integers(0, self.size, 2)
        self.goal = self.rng.integers(0, self.size, 2)
        self.carrying, self.battery = False, 40
        return self.observe()

    def observe(self):
        target = self.goal if self.carrying else self.parcel
        planes = np.zeros((self.size, self.size, 4), "float32")
        planes[self.pos[0], self.pos[1], 0] = 1
        planes[target[0], target[1], 1] = 1
        planes[..., 2] = self.carrying
        planes[..., 3] = self.battery / 40.0
        return planes

    def step(self, action):
        self.pos = np.clip(self.pos + self.MOVES[action], 0, self.size - 1)
        self.battery -= 1
        reward, done = -0.05, self.battery <= 0
        if not self.carrying and (self.pos == self.parcel).all():
            self.carrying, reward = True, 1.0
        elif self.carrying and (self.pos == self.goal).all():
            reward, done = 2.0, True
        return self.observe(), reward, done


class ReplayBuffer:
    def __init__(self, capacity):
        self.items = collections.deque(maxlen=capacity)

    def add(self, *transition):
        self.items.append(transition)

    def sample(self, n):
        s, a, r, s2, d = zip(*random.sample(self.items, n))
        return np.stack(s), np.array(a), np.array(r, "float32"), np.stack(s2), np.array(d, "float32")

    def __len__(self):
        return len(self.items)


class DoubleDQN:
    def __init__(self, shape, n_actions, args):
        self.n_actions, self.args = n_actions, args
        self.online = self._network(shape)
        self.target = self._network(shape)
        self.target.set_weights(self.online.get_weights())
        self.epsilon = 0.5

    def _network(self, shape):
        model = keras.Sequential([
            keras.Input(shape),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dense(256, activation="relu"),
            layers.Dense(self.n_actions),
        ])
        model.compile(optimizer=keras.optimizers.Adam(self.args.lr), loss="huber")
        return model

    def q_values(self, model, states):
        return model.predict(states, verbose=0)

    def act(self, state):
        if np.random.random() < self.epsilon:
            return np.random.randint(self.n_actions)
        return int(np.argmax(self.q_values(self.online, state[None])[0]))

    def learn(self, memory):
        states, actions, rewards, following, done = memory.sample(self.args.batch_size)
        best = np.argmax(self.q_values(self.online, following), axis=1)
        ahead = self.q_values(self.target, following)[np.arange(len(best)), best]
        wanted = np.array(self.q_values(self.online, states))
        wanted[np.arange(len(actions)), actions] = rewards + self.args.gamma * (1 - done) * ahead
        loss = self.online.train_on_batch(states, wanted)
        self.epsilon = max(0.05, self.epsilon * 0.995)
        return float(loss)


def play(env, agent, memory, args):
    losses, returns, total = [], [], 0.0
    state = env.reset()
    for step in range(args.steps):
        action = agent.act(state)
        following, reward, done = env.step(action)
        memory.add(state, action, reward, following, done)
        total += reward
        state = following
        if done:
            returns.append(total)
            state, total = env.reset(), 0.0
        if len(memory) >= args.batch_size:
            losses.append(agent.learn(memory))
        if step % args.sync_every == 0:
            agent.target.set_weights(agent.online.get_weights())
        if step % 50 == 49:
            print("step %4d  loss %.4f  return %.2f" % (step + 1, np.mean(losses[-50:] or [0]), np.mean(returns[-5:] or [0])))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=180)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--gamma", type=float, default=0.97)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--sync-every", type=int, default=40)
    args = parser.parse_args()
    random.seed(0)
    np.random.seed(0)
    env = CourierGrid()
    agent = DoubleDQN(env.reset().shape, len(env.MOVES), args)
    t0 = time.time()
    play(env, agent, ReplayBuffer(5000), args)
    print("train time: %.2f s" % (time.time() - t0))
