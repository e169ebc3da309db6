"""Small helpers shared by all experiments."""
import os
import random

import numpy as np
import torch
import keras


def mkdir(path):
    os.makedirs(path, exist_ok=True)


def set_one_thread():
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["MKL_NUM_THREADS"] = "1"
    torch.set_num_threads(1)


def random_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    keras.utils.set_random_seed(seed)


class Logger:
    def __init__(self, tag):
        self.tag = tag

    def info(self, msg, *args):
        print("[%s] %s" % (self.tag, msg % args))
