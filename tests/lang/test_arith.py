"""Checked arithmetic: compiled and plain forms agree with Python on the edges."""

from __future__ import annotations

import math
import operator
from typing import Any

import numba
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.lang import arith, mathlib
from mainstem.schema import INT64_MAX, INT64_MIN

INTS = st.one_of(
    st.sampled_from(
        [0, 1, -1, 2, -2, 63, 64, INT64_MIN, INT64_MAX, INT64_MIN + 1, 2**53, 2**53 + 1, -(2**53) - 1, 3037000500]
    ),
    st.integers(INT64_MIN, INT64_MAX),
    st.integers(-10, 10),
)
FLOATS = st.one_of(
    st.sampled_from(
        [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, math.inf, -math.inf, math.nan, 2.0**53, 2.0**62, -(2.0**63), 2.0**63, 1e308]
    ),
    st.floats(),
)
INT_PAIRS = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv, "mod": operator.mod,
}  # fmt: skip


def both(function: Any) -> list[Any]:
    @numba.njit
    def compiled(*arguments: Any) -> Any:
        return function(*arguments)

    return [function, compiled]


def same(a: Any, b: Any) -> bool:
    return a == b or (a != a and b != b)


@pytest.mark.parametrize("name", INT_PAIRS)
def test_int_operators_are_python_in_64_bits(name: str) -> None:
    forms = both(getattr(arith, name))

    @given(INTS, INTS)
    def check(a: int, b: int) -> None:
        try:
            exact = INT_PAIRS[name](a, b)
            expected = (exact, 0) if INT64_MIN <= exact <= INT64_MAX else (0, arith.OVERFLOW)
        except ZeroDivisionError:
            expected = (0, arith.ZERO_DIVISION)
        assert [tuple(form(a, b)) for form in forms] == [expected, expected]

    check()


@pytest.mark.parametrize("name", ["lshift", "rshift", "truediv", "int_power"])
def test_other_int_operators_agree_compiled_and_plain(name: str) -> None:
    plain, compiled = both(getattr(arith, name))
    seconds = st.integers(0, 70) if name == "int_power" else INTS

    @given(INTS, seconds)
    def check(a: int, b: int) -> None:
        assert tuple(plain(a, b)) == tuple(compiled(a, b))

    check()


@given(INTS, st.integers(0, 63))
def test_shifts_are_pythons(a: int, n: int) -> None:
    exact = a << n
    assert arith.lshift(a, n) == ((exact, 0) if INT64_MIN <= exact <= INT64_MAX else (0, arith.OVERFLOW))
    assert arith.rshift(a, n) == (a >> n, 0)


@pytest.mark.parametrize(
    ("name", "python"),
    [("float_floordiv", operator.floordiv), ("float_mod", operator.mod), ("float_div", operator.truediv)],
)
def test_float_division_is_cpythons_to_the_last_bit(name: str, python: Any) -> None:
    forms = both(getattr(arith, name))

    @given(FLOATS, FLOATS)
    def check(a: float, b: float) -> None:
        for form in forms:
            value, code = form(a, b)
            if b == 0.0:
                assert code == arith.ZERO_DIVISION
            else:
                assert code == 0
                assert same(value, python(a, b))
                assert math.copysign(1, value) == math.copysign(1, python(a, b)) or math.isnan(value)

    check()


@pytest.mark.parametrize(
    ("name", "python"), [("to_int", int), ("floor_int", math.floor), ("ceil_int", math.ceil), ("round_int", round)]
)
def test_floats_become_ints_as_in_python(name: str, python: Any) -> None:
    forms = both(getattr(arith, name))

    @given(FLOATS)
    def check(x: float) -> None:
        fits = math.isfinite(x) and INT64_MIN <= x < 2.0**63
        expected = (python(x), 0) if fits else (0, arith.NOT_INT64)
        assert [tuple(form(x)) for form in forms] == [expected, expected]

    check()


def test_ints_and_floats_compare_exactly() -> None:
    less, equal, greater = both(arith.less_int_float), both(arith.equal_int_float), both(arith.less_float_int)

    @given(INTS, FLOATS)
    def check(a: int, b: float) -> None:
        assert [f(a, b) for f in less] == [a < b] * 2
        assert [f(a, b) for f in equal] == [a == b] * 2
        assert [f(b, a) for f in greater] == [b < a] * 2

    check()


@pytest.mark.parametrize("name", mathlib.FUNCTIONS)
def test_math_functions_fail_as_in_python(name: str) -> None:
    forms = both(mathlib.FUNCTIONS[name])

    @given(FLOATS)
    def check(x: float) -> None:
        try:
            expected: tuple[float, int] = (getattr(math, name)(x), 0)
        except OverflowError:
            expected = (0.0, arith.FLOAT_OVERFLOW)
        except ValueError:
            expected = (0.0, arith.DOMAIN)
        for form in forms:
            value, code = form(x)
            assert code == expected[1]
            assert same(value, expected[0])

    check()


@pytest.mark.parametrize(("name", "python"), [("math_pow", math.pow), ("math_fmod", math.fmod)])
def test_math_functions_of_two_arguments(name: str, python: Any) -> None:
    forms = both(getattr(arith, name))

    @given(FLOATS, FLOATS)
    def check(a: float, b: float) -> None:
        try:
            expected: tuple[float, int] = (python(a, b), 0)
        except OverflowError:
            expected = (0.0, arith.FLOAT_OVERFLOW)
        except ValueError:
            expected = (0.0, arith.DOMAIN)
        for form in forms:
            value, code = form(a, b)
            assert code == expected[1]
            assert same(value, expected[0])

    check()
