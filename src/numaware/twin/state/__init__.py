"""The three files in which a kubelet remembers what it gave away: read, verified and written to the byte.

`cpu.py`, `memory.py` and `device.py` each hold one file's values, `encode` (the bytes a kubelet would write) and
`decode` (what some kubelet would take back, or `CorruptCheckpointError`); `release.py` reads them as a kubelet of one
release does; `verify.py` judges any file a person hands in.
"""
