import os
import signal
import subprocess
import sys
import time

from fitscope.machine import Meter

WORKS = "import time\nwhile time.process_time() < 0.3: pass"


def test_a_child_that_came_and_went_between_two_looks_is_no_other_program():
    samples = []
    meter = Meter(os.getpid(), time.time(), samples.append)
    began = time.monotonic()
    for _ in range(2):
        subprocess.run([sys.executable, "-c", WORKS], check=True)
    meter.read()
    worked = samples[0]["sample"]["cpu"] * (time.monotonic() - began)
    assert worked >= 0.57  # of 0.6, in hundredths of a core


def test_the_children_of_a_child_that_came_since_the_last_look_are_counted():
    samples = []
    meter = Meter(os.getpid(), time.time(), samples.append)
    starts = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {WORKS.replace('0.3', '60')!r}])"
    began = time.monotonic()
    child = subprocess.Popen([sys.executable, "-c", starts], start_new_session=True)
    try:
        worked = 0.0
        while worked < 0.3 and time.monotonic() < began + 30:
            time.sleep(0.3)
            meter.read()
            worked = samples[-1]["sample"]["cpu"]
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    assert worked >= 0.3
