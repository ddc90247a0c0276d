import numpy as np
import torch

from handful.kernels.counter import below, mix, uniform, uniform_torch


def test_mix_is_splitmix64() -> None:
    """The published first outputs of SplitMix64 for seed 0: its state is the golden ratio times the call's number."""
    assert [int(mix(0, k)) for k in (1, 2, 3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_uniform_is_uniform_and_the_same_in_torch() -> None:
    for key in (0, 12345, 2**63 + 11):
        counters = np.concatenate([np.arange(20_000), [2**31 + 5, 2**40]])
        values = np.array([uniform(np.uint64(key), c) for c in counters])
        assert values.min() >= 0
        assert values.max() < 1
        histogram = np.histogram(values, 20, (0, 1))[0]
        assert ((histogram - 1000) ** 2 / 1000).sum() < 50  # chi square, 19 degrees of freedom
        assert np.array_equal(values, uniform_torch(key, torch.from_numpy(counters)).numpy())


def test_below_reaches_every_value_and_no_other() -> None:
    for bound in (1, 2, 3, 7):
        assert {below(9, k, bound) for k in range(500)} == set(range(bound))
