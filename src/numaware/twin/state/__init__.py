"""The three files in which a kubelet remembers what it gave away: read, verified and written to the byte.

`cpu.py`, `memory.py` and `device.py` each hold one file's values, `encode` (the bytes a kubelet would write) and
`decode` (what a kubelet would take back, or `CorruptCheckpointError`); `verify.py` judges any file a person hands in.
"""
