"""The hot loops. They know nothing but arrays: numba for the CPU, Triton for GPUs, plain torch for any other device.

``csr`` builds and reads compressed rows, ``subgraph`` cuts induced parts out of them, ``aggregate`` multiplies
by them. ``threads`` holds the one way in which all of them use more than one core.
"""
