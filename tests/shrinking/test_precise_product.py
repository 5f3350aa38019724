"""Products of float32 as NVIDIA's tensor cores compute them: from two parts of 11 bits each."""

import pytest
import torch

from deadhead import numerics
from deadhead.numerics import precise_product

FLOAT32 = 2.0**-24  # the rounding of a number


def matrices():
    random = torch.Generator().manual_seed(0)
    return torch.randn(40, 300, generator=random).T, torch.randn(40, 7, generator=random) * 1e3


def test_three_products_of_the_parts_are_as_precise_as_float32():
    first, second = matrices()
    exact = first.double() @ second.double()
    size = first.double().abs() @ second.double().abs()
    (high, low), (other_high, other_low) = (numerics._split(m) for m in (first, second))
    # the tensor cores see 11 bits of the low parts too
    low, other_low = (numerics._split(m)[0].double() for m in (low, other_low))
    high, other_high = high.double(), other_high.double()
    three = high @ other_high + low @ other_high + high @ other_low
    assert float(((three - exact).abs() / size).max()) < 8 * FLOAT32
    assert float(((high @ other_high - exact).abs() / size).max()) > 500 * FLOAT32


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_the_product_whatever_torch_is_set_to(dtype):
    first, second = (matrix.to(dtype) for matrix in matrices())
    exact = first.double() @ second.double()
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        product = precise_product(first, second)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)
    assert product.dtype == dtype
    assert torch.allclose(product.double(), exact, rtol=0, atol=1e-6 * float(exact.abs().max()))
