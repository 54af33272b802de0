"""What the process that draws keeps in memory between two requests (R6)."""

import ctypes
import sys

__all__ = ["CACHE_BYTES", "give_back"]

# Blocks of rasters that GDAL has read; by itself it would take a twentieth of the machine.
CACHE_BYTES = 64 * 2**20
# Of malloc.h: arrays from this size on are given back to the system when they are freed, and threads share heaps.
M_MMAP_THRESHOLD, LEAST_GIVEN_BACK = -3, 2**20
M_ARENA_MAX, MOST_HEAPS = -8, 2


def give_back() -> None:
    """Let the C library keep no large array that was freed: each thread that draws would keep its own."""
    if not sys.platform.startswith("linux"):
        return
    tune = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none, and keeps none
    if tune:
        tune(M_MMAP_THRESHOLD, LEAST_GIVEN_BACK)
        tune(M_ARENA_MAX, MOST_HEAPS)
