"""The memory that a process took at its peak."""

from __future__ import annotations

import re
import resource
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_memory() -> int:
    """Bytes of this process at its peak.

    On Linux `resource.getrusage` begins with the peak of the process that started this one, which would hide it.
    """
    if STATUS.exists():
        found = re.search(r"VmHWM:\s+(\d+) kB", STATUS.read_text(encoding="utf-8"))
        if found is not None:
            return int(found[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
