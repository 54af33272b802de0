"""Cleaning of layers: small functions over arrays, in one order (V2), each noting what it changed or dropped (V1)."""
