"""What one backend sees and reaches, as JSON: a program that `doctor` runs for each backend that is installed.

    python -m fitscope.doctor.probe torch [--without-device]

It is a process of its own so that a backend that crashes, hangs or takes a GPU's memory takes nobody with it.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from fitscope.limits import backend_threads

SIZE = 1024
SECONDS = 0.6
"""How long the multiplication is repeated."""


def main() -> None:
    """Asks the backend that is named."""
    name, *rest = sys.argv[1:]
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    if "--without-device" in rest:
        os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["HIP_VISIBLE_DEVICES"] = ""
        os.environ["JAX_PLATFORMS"] = "cpu"
    module = importlib.import_module(name)
    answer = {"version": str(module.__version__), **ASK[name](module)}
    answer["threads"] = backend_threads(name)
    sys.stdout.write("\n" + json.dumps(answer) + "\n")


def _tensorflow(tf: Any) -> dict[str, Any]:
    build = tf.sysconfig.get_build_info()
    cuda = build.get("cuda_version") if build.get("is_cuda_build") else None
    rocm = "ROCm" if build.get("is_rocm_build") else None
    devices = [device.name for kind in ("GPU", "TPU") for device in tf.config.list_physical_devices(kind)]
    matrix = tf.random.uniform((SIZE, SIZE))
    multiply = tf.function(lambda value: tf.linalg.matmul(value, value))
    flops = _flops(lambda: multiply(matrix), lambda value: value.numpy())
    return {"wheel": f"CUDA {cuda}" if cuda else rocm or "CPU", "devices": devices, "flops": flops}


def _jax(jax: Any) -> dict[str, Any]:
    plugins = sorted(
        distribution.metadata["Name"]
        for distribution in importlib.metadata.distributions()
        if (distribution.metadata["Name"] or "").startswith(("jax-cuda", "jax-rocm", "jax-metal", "libtpu"))
    )
    devices = [str(device) for device in jax.devices() if device.platform != "cpu"]
    matrix = jax.numpy.ones((SIZE, SIZE), "float32")
    multiply = jax.jit(lambda value: value @ value)
    flops = _flops(lambda: multiply(matrix), lambda value: value.block_until_ready())
    return {"wheel": ", ".join(plugins) or "CPU", "devices": devices, "flops": flops}


def _torch(torch: Any) -> dict[str, Any]:
    cuda, hip = torch.version.cuda, getattr(torch.version, "hip", None)
    wheel = f"CUDA {cuda}" if cuda else f"ROCm {hip}" if hip else "CPU"
    devices = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    if not devices and torch.backends.mps.is_available():
        devices, wheel = ["mps"], "Metal"
    device = "cuda" if torch.cuda.is_available() else "mps" if devices == ["mps"] else "cpu"
    matrix = torch.rand((SIZE, SIZE), device=device)
    flops = _flops(lambda: matrix @ matrix, lambda value: value[0, 0].item())
    return {"wheel": wheel, "devices": devices, "flops": flops}


def _flops(multiply: Callable[[], Any], wait: Callable[[Any], Any]) -> float:
    """Floating point operations per second of a matrix multiplication in float32, the best of some rounds."""
    wait(multiply())
    rounds, best, began = 4, 0.0, time.perf_counter()
    while time.perf_counter() - began < SECONDS:
        start = time.perf_counter()
        for _ in range(rounds):
            result = multiply()
        wait(result)
        best = max(best, rounds * 2 * SIZE**3 / (time.perf_counter() - start))
    return best


ASK = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}

if __name__ == "__main__":
    main()
