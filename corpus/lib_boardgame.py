import math
import numpy as np


class FourRow:
    """4x4 board, four in a row wins. Boards are seen by the player to move (+1 own, -1 other)."""
    size = 4
    actions = 16

    def __init__(self):
        cells = np.arange(16).reshape(4, 4)
        self.lines = np.array([*cells, *cells.T, np.diag(cells), np.diag(cells[:, ::-1])])

    def start(self):
        return np.zeros(16, dtype=np.int8)

    def legal(self, board):
        return (board == 0).astype("float32")

    def play(self, board, action):
        nxt = board.copy()
        nxt[action] = 1
        return -nxt

    def ended(self, board):
        if (board[self.lines].sum(axis=1) == -4).any():
            return -1.0
        return 0.0 if (board == 0).any() else 1e-4

    def symmetries(self, board, pi):
        b, p = board.reshape(4, 4), np.reshape(pi, (4, 4))
        for k in range(4):
            for flip in (False, True):
                rb, rp = np.rot90(b, k), np.rot90(p, k)
                if flip:
                    rb, rp = np.fliplr(rb), np.fliplr(rp)
                yield rb.ravel(), rp.ravel()


class TreeSearch:
    def __init__(self, game, net, sims, c_puct=1.5):
        self.game, self.net, self.sims, self.c = game, net, sims, c_puct
        self.P, self.N, self.Q, self.E = {}, {}, {}, {}

    def policy(self, board):
        for _ in range(self.sims):
            self._visit(board)
        counts = self.N[board.tobytes()]
        if counts.sum() == 0:
            counts = self.P[board.tobytes()]
        return counts / counts.sum()

    def _visit(self, board):
        key = board.tobytes()
        if key not in self.E:
            self.E[key] = self.game.ended(board)
        if self.E[key] != 0:
            return -self.E[key]
        mask = self.game.legal(board)
        if key not in self.P:
            prior, value = self.net.predict(board)
            prior = prior * mask + 1e-8 * mask
            self.P[key] = prior / prior.sum()
            self.N[key] = np.zeros(self.game.actions)
            self.Q[key] = np.zeros(self.game.actions)
            return -value
        n, q = self.N[key], self.Q[key]
        score = q + self.c * self.P[key] * math.sqrt(n.sum() + 1e-8) / (1 + n)
        a = int(np.argmax(np.where(mask > 0, score, -np.inf)))
        value = self._visit(self.game.play(board, a))
        q[a] = (n[a] * q[a] + value) / (n[a] + 1)
        n[a] += 1
        return -value
