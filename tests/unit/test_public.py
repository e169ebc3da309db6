"""The public names are exactly those of `__all__`, and nothing heavy is loaded for them."""

import subprocess
import sys

import fitscope


def test_the_public_names_are_the_promised_ones():
    remedies = {"Background", "BackgroundCheckpoint", "Every", "Loader", "materialize", "metrics", "tune"}
    assert set(fitscope.__all__) == {"Profiler", "__version__", "profile"} | remedies


def test_importing_fitscope_loads_no_dependency_and_no_keras():
    code = (
        "import fitscope, sys; print([m for m in ('click', 'rich', 'psutil', 'keras', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(fitscope, "nonesuch")
