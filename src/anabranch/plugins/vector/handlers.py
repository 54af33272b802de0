"""Handlers on vector files: they fetch and store files, and open untrusted files only in a sandbox."""
