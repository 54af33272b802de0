"""Limits the memory that the API keeps between requests for tiles (R6)."""

import ctypes
import sys

__all__ = ["CACHE_BYTES", "return_freed_memory"]

# GDAL's block cache; its default is a twentieth of the machine's memory.
CACHE_BYTES = 64 * 2**20
# From malloc.h: arrays of this size and more return to the system when they are freed; threads share heaps.
M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES = -3, 2**20
M_ARENA_MAX, MAX_HEAPS = -8, 2


def return_freed_memory() -> None:
    """Make the C library return large freed arrays to the system: each drawing thread would keep its own."""
    if not sys.platform.startswith("linux"):
        return
    tune = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has no mallopt, and needs none
    if tune:
        tune(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
        tune(M_ARENA_MAX, MAX_HEAPS)
