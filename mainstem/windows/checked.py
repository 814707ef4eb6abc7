"""A user's step compiled by Numba so that it gives what Python gives, or raises.

Numba's integers wrap, its comparisons round large integers, and its `int()` takes any float. A pass over Numba's form
of the function puts checked operations in the place of its own, before types are inferred; a step that uses anything
else is not compiled. Where a checked operation raises, the caller lets Python do the same work: what is too large
halfway through a step need not be too large in its result.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numba
from numba import types
from numba.core import ir
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.errors import NumbaError
from numba.core.untyped_passes import IRProcessing
from numba.extending import intrinsic, overload

EXACT = 2**53  # up to here every integer is a float
_TWO63 = 2.0**63
_SMALLEST = -(2**63)
# Nothing is computed in these; the one unary operation that gets there is `not`.
_PASSED_ON = ("unary", "cast", "phi", "getiter", "iternext", "pair_first", "pair_second")


class _NotCheckedError(Exception):
    """The step uses an operation that has no checked form."""


def compiled_step(step: Callable[[Any, Any], Any], accumulator: Any, value: Any) -> tuple[Any, str] | None:
    """The compiled step for values of these kinds, and the name of the type that it gives; None if it can't be."""
    try:
        found: Any = numba.njit(nogil=True, pipeline_class=_Checked)(step)
        found.compile((numba.typeof(accumulator), numba.typeof(value)))
    except (NumbaError, _NotCheckedError, TypeError, ValueError):
        return None
    (compiled,) = found.overloads.values()
    if _widens(compiled.type_annotation):
        return None
    return found, str(compiled.signature.return_type)


def _widens(typed: Any) -> bool:
    """Whether a variable is an int or a float, as it comes: Numba makes it a float, and goes on with that."""
    for block in typed.blocks.values():
        for assign in block.find_insts(ir.Assign):
            if not isinstance(typed.typemap[assign.target.name], types.Float):
                continue
            value = assign.value
            sources = value.incoming_values if isinstance(value, ir.Expr) and value.op == "phi" else [value]
            if any(isinstance(s, ir.Var) and _whole(typed.typemap[s.name]) for s in sources):
                return True
    return False


@register_pass(mutates_CFG=False, analysis_only=False)
class _CheckOperations(FunctionPass):
    _name = "mainstem_check_operations"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        for block in state.func_ir.blocks.values():
            for assign in block.find_insts(ir.Assign):
                if isinstance(assign.value, ir.Expr):
                    _check(assign.value, state.func_ir)
        return True


class _Checked(CompilerBase):
    def define_pipelines(self) -> list[Any]:
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager.add_pass_after(_CheckOperations, IRProcessing)
        manager.finalize()
        return [manager]


def _check(expr: Any, func_ir: Any) -> None:
    if expr.op == "inplace_binop":
        expr.fn = expr.immutable_fn = _form_of(expr.immutable_fn)
    elif expr.op == "binop" or (expr.op == "unary" and expr.fn is not operator.not_):
        expr.fn = _form_of(expr.fn)
    elif expr.op == "call":
        called = func_ir.get_definition(expr.func)
        if not isinstance(called, ir.Global | ir.FreeVar):
            raise _NotCheckedError
        called.value = _form_of(called.value)
    elif expr.op not in _PASSED_ON:
        raise _NotCheckedError


def _form_of(function: Any) -> Any:
    try:
        return _FORMS[function]
    except (KeyError, TypeError):
        raise _NotCheckedError from None


# -- checked operations --------------------------------------------------------------------------------------------


def _whole(type: Any) -> bool:
    """A bool, or an integer that fits 64 bits with its sign."""
    plain = types.unliteral(type)
    return plain in types.signed_domain or isinstance(plain, types.Boolean)


def _number(type: Any) -> bool:
    return _whole(type) or isinstance(type, types.Float)


def _flagged(method: str) -> Any:
    """Value and overflow flag of the processor: to Numba's own `+` overflow is undefined."""

    @intrinsic
    def operation(typing_context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            pair = getattr(builder, method)(*args)
            parts = [builder.extract_value(pair, 0), builder.extract_value(pair, 1)]
            return context.make_tuple(builder, sig.return_type, parts)

        return types.Tuple((types.int64, types.boolean))(types.int64, types.int64), generate

    return operation


def _exact_whole(operation: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
    """Whole numbers by a flagged operation, floats by Numba's."""

    def whole(a: Any, b: Any) -> Any:
        result, overflowed = operation(a, b)
        if overflowed:
            raise OverflowError
        return result

    return lambda a, b: whole if _whole(a) and _whole(b) else plain if _number(a) and _number(b) else None


def _compared(plain: Callable[..., Any]) -> Callable[..., Any]:
    compare: Any = numba.njit(plain)

    def whole_first(a: Any, b: Any) -> Any:
        if a > EXACT or a < -EXACT:
            raise OverflowError
        return compare(float(a), b)

    def whole_second(a: Any, b: Any) -> Any:
        if b > EXACT or b < -EXACT:
            raise OverflowError
        return compare(a, float(b))

    def choose(a: Any, b: Any) -> Any:
        if not _number(a) or not _number(b):
            return None
        if _whole(a) == _whole(b):
            return plain
        return whole_first if _whole(a) else whole_second

    return choose


def _of_same(plain: Callable[..., Any]) -> Callable[..., Any]:
    """For two numbers of one type."""
    return lambda a, b: plain if _number(a) and types.unliteral(a) == types.unliteral(b) else None


def _of_bits(plain: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, b: plain if _whole(a) and types.unliteral(a) == types.unliteral(b) else None


def _divided(a: Any, b: Any) -> Any:
    def whole(a: Any, b: Any) -> Any:
        if a > EXACT or a < -EXACT or b > EXACT or b < -EXACT:
            raise OverflowError
        return float(a) / float(b)

    return whole if _whole(a) and _whole(b) else (lambda a, b: a / b) if _number(a) and _number(b) else None


def _floored(a: Any, b: Any) -> Any:
    def whole(a: Any, b: Any) -> Any:
        if b == -1 and a == _SMALLEST:
            raise OverflowError
        return int(a) // int(b)

    return whole if _whole(a) and _whole(b) else None


def _remainder(a: Any, b: Any) -> Any:
    return (lambda a, b: 0 if b == -1 else int(a) % int(b)) if _whole(a) and _whole(b) else None


def _negated(a: Any) -> Any:
    def whole(a: Any) -> Any:
        if a == _SMALLEST:
            raise OverflowError
        return -int(a)

    return whole if _whole(a) else (lambda a: -a) if _number(a) else None


def _absolute(a: Any) -> Any:
    def whole(a: Any) -> Any:
        if a == _SMALLEST:
            raise OverflowError
        return abs(int(a))

    return whole if _whole(a) else (lambda a: abs(a)) if _number(a) else None


def _truncated(a: Any) -> Any:
    def of_float(a: Any) -> Any:
        if not (-_TWO63 <= a < _TWO63):
            raise OverflowError
        return int(a)

    return (lambda a: int(a)) if _whole(a) else of_float if _number(a) else None


def _checked_form(choose: Callable[..., Any]) -> Any:
    """A function that compiled code can call; which code that is, `choose` says by the types of the arguments."""

    def form(*arguments: Any) -> Any:
        raise AssertionError("only compiled code calls this")

    overload(form, strict=False)(choose)
    return form


# By what Python calls. The second of two equal ones is not given out by `max` and `min`, nor a nan that comes second.
_CHOICES: dict[Any, Callable[..., Any]] = {
    operator.add: _exact_whole(_flagged("sadd_with_overflow"), lambda a, b: a + b),
    operator.sub: _exact_whole(_flagged("ssub_with_overflow"), lambda a, b: a - b),
    operator.mul: _exact_whole(_flagged("smul_with_overflow"), lambda a, b: a * b),
    operator.truediv: _divided,
    operator.floordiv: _floored,
    operator.mod: _remainder,
    operator.and_: _of_bits(lambda a, b: a & b),
    operator.or_: _of_bits(lambda a, b: a | b),
    operator.xor: _of_bits(lambda a, b: a ^ b),
    operator.lt: _compared(lambda a, b: a < b),
    operator.le: _compared(lambda a, b: a <= b),
    operator.gt: _compared(lambda a, b: a > b),
    operator.ge: _compared(lambda a, b: a >= b),
    operator.eq: _compared(lambda a, b: a == b),
    operator.ne: _compared(lambda a, b: a != b),
    operator.neg: _negated,
    abs: _absolute,
    int: _truncated,
    max: _of_same(lambda a, b: b if b > a else a),
    min: _of_same(lambda a, b: b if b < a else a),
}
_FORMS: dict[Any, Any] = {function: _checked_form(choose) for function, choose in _CHOICES.items()}
_FORMS |= {float: float, bool: bool, range: range}
