"""The kernel's list of mounts: escapes, layers, and which mount has a path."""

from __future__ import annotations

from silomq.tools.doctor.mounts import innermost, mount_of, parse

LIST = r"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
23 22 0:5 / /dev/shm rw,nosuid - tmpfs tmpfs rw,size=64k
24 22 8:1 / /data rw - xfs /dev/sdb rw
25 24 8:2 /sub /data/with\040blank ro,relatime - nfs4 server:/x rw,vers=4.2
26 22 8:3 / /data rw,sync - ext4 /dev/sdc rw
a line that is none
"""


def test_options_of_mount_and_file_system_come_together() -> None:
    mounts = parse(LIST)
    assert [mount.kind for mount in mounts] == ["ext4", "tmpfs", "xfs", "nfs4", "ext4"]
    assert {"relatime", "discard", "rw"} == mounts[0].options
    assert mounts[3].point == "/data/with blank"
    assert {"ro", "vers=4.2"} <= mounts[3].options


def test_the_innermost_and_the_last_mount_has_a_path() -> None:
    mounts = parse(LIST)
    assert innermost(mounts, "/database").point == "/"
    assert innermost(mounts, "/data/store").source == "/dev/sdc"
    assert innermost(mounts, "/data/with blank/store").kind == "nfs4"
    assert innermost(mounts, "/data/with blanks").source == "/dev/sdc"
    assert innermost([], "/data").kind == "unknown"


def test_this_machine_has_a_root() -> None:
    assert mount_of("/proc").kind == "proc"
