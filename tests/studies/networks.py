"""Whether tests can make networks of their own on this machine."""

import shutil
import subprocess
import sys

APART = [
    "unshare",
    "--user",
    "--map-root-user",
    "--net",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--",
]


def can_be_apart():
    """Whether this machine lets us make networks, as root of a world of our own."""
    wire = "ip link add wire1 type veth peer name wire2"
    if sys.platform != "linux" or not shutil.which("unshare") or not shutil.which("ip"):
        return False
    return (
        subprocess.run([*APART, "bash", "-c", wire], capture_output=True, check=False).returncode
        == 0
    )
