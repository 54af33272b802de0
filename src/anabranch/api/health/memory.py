"""The memory that a process of the API may take: no request can exhaust the memory of the machine."""

import resource
import sys

import structlog

__all__ = ["limit_memory"]

log = structlog.get_logger()


def limit_memory(megabytes: int) -> None:
    """Bound the address space of this process, within what it was given; 0 leaves it as it is."""
    if not megabytes or not sys.platform.startswith("linux"):
        return
    wanted, (_, hard) = megabytes * 2**20, resource.getrlimit(resource.RLIMIT_AS)
    bound = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
    log.info("api.memory_limited", megabytes=bound // 2**20)
