"""The hot loops, on plain arrays: numba for the CPU, Triton for GPUs, plain torch for any other device.

``csr`` builds and reads compressed rows, ``subgraph`` cuts induced parts out of them, ``aggregate`` multiplies
by them. ``threads`` has the thread pool that all of them use.
"""
