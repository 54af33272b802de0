"""Limits the memory of an API process, so that no request can exhaust the machine's."""

import resource
import sys

import structlog

__all__ = ["limit_memory"]

log = structlog.get_logger()


def limit_memory(megabytes: int) -> None:
    """Limit the address space of this process; 0 leaves it unchanged."""
    if not megabytes or not sys.platform.startswith("linux"):
        return
    wanted, (_, hard) = megabytes * 2**20, resource.getrlimit(resource.RLIMIT_AS)
    bound = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
    log.info("api.memory_limited", megabytes=bound // 2**20)
