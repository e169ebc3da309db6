import contextlib

from fitscope.model import FitscopeError
from fitscope.profiling import Profile


def test_a_file_that_is_no_run_is_not_written_over(tmp_path):
    """`profile("train.py")` is easily written for `profile("train.run")`."""
    path = tmp_path / "train.py"
    path.write_text("import keras\n")
    with contextlib.suppress(FitscopeError):
        Profile(path)._sink.close()
    assert path.read_text() == "import keras\n"
