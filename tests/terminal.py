"""A terminal to run a command in, as a person has it: real, with a size, and with a screen that can be read."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pyte

import fitscope


class Terminal:
    """A real pseudo-terminal with a command in it, and its screen as a person sees it."""

    def __init__(self, folder, words, *, rows=12, **environment):
        self.screen = pyte.Screen(80, rows)
        self._stream = pyte.ByteStream(self.screen)
        self._master, slave = pty.openpty()
        self.resize(rows, 80)
        attributes = termios.tcgetattr(slave)
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, attributes)
        ours = {name: value for name, value in os.environ.items() if not name.startswith("FITSCOPE")}
        source = str(Path(fitscope.__file__).parent.parent)
        self.process = subprocess.Popen(
            [sys.executable, *words],
            cwd=folder,
            env={**ours, "TERM": "xterm", "PYTHONPATH": source, **environment},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)),
        )
        os.close(slave)

    def resize(self, rows, columns):
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)

    def until(self, there):
        """Reads until the screen is as it should be."""
        end = time.monotonic() + 60
        while not there():
            assert time.monotonic() < end, "\n".join(self.screen.display)
            if not self.read(0.2) and self.process.poll() is not None:
                assert there(), "\n".join(self.screen.display)

    def read(self, seconds=0.0):
        if select.select([self._master], [], [], seconds)[0]:
            try:
                self._stream.feed(os.read(self._master, 65536))
                return True
            except OSError:
                return False
        return False

    def press(self, keys):
        os.write(self._master, keys)

    def go(self):
        self.press(b"go\n")

    def finish(self):
        """Reads to the end; returns the exit code."""
        while self.process.poll() is None or self.read(0.1):
            self.read(0.2)
        os.close(self._master)
        return self.process.returncode

    @property
    def last(self):
        return self.screen.display[-1].rstrip()

    @property
    def above(self):
        return [line.rstrip() for line in self.screen.display[:-1]]

    def shows(self, text):
        return any(text in line for line in self.screen.display)
