"""What has become of a process that is no child of the tests."""

import psutil


def gone(pid):
    """Whether it has ended; its entry may be left in the process table."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
