"""The kernels, on plain arrays: numba for the CPU, Triton for GPUs, plain torch for any other device.

``csr`` builds and reads compressed rows (CSR), ``subgraph`` cuts induced parts out of a CSR, ``aggregate`` multiplies
by a CSR. ``threads`` has the thread pool of all kernels.
"""
