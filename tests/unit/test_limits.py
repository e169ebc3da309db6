"""What control groups allow, in both of their generations."""

import pytest

from fitscope.limits import group_limits, group_memory_used, limits


def tree(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_the_second_generation_gives_the_tightest_limit_on_the_way_up(tmp_path):
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/pod/box\n",
            "sys/fs/cgroup/pod/box/cpu.max": "400000 100000\n",
            "sys/fs/cgroup/pod/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/pod/box/memory.max": "max\n",
            "sys/fs/cgroup/pod/memory.max": "2000000000\n",
            "sys/fs/cgroup/pod/box/memory.current": "500\n",
        },
    )
    assert group_limits(root) == {"quota_cores": 1.5, "memory_limit_bytes": 2_000_000_000}
    assert group_memory_used(root) == 500


def test_the_first_generation_is_read_too(tmp_path):
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/box\n2:cpu,cpuacct:/box\n",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "1000000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    assert group_limits(root) == {"quota_cores": 0.5, "memory_limit_bytes": 1_000_000}


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"proc/self/cgroup": "nonsense\n"},
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n", "sys/fs/cgroup/memory.max": "?\n"},
    ],
)
def test_where_nothing_is_set_nothing_is_limited(tmp_path, files):
    assert group_limits(tree(tmp_path, files)) == {"quota_cores": None, "memory_limit_bytes": None}


def test_a_process_may_use_no_more_cores_than_there_are():
    here = limits()
    assert 1 <= here["usable_cores"] <= here["cores"]
