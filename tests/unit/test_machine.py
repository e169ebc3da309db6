import os
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
    assert worked >= 0.6
