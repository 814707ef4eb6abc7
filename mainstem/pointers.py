"""Calls of compiled functions by their addresses: so that kernels can be compiled once for all programs, and threads
can go from one task to the next without Python."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from mainstem.atomics import intrinsic


@intrinsic
def invoke(typing_context: Any, address: Any, context_address: Any, item: Any, worker: Any) -> Any:
    """Calls generated code: `function(context, item, worker)`; gives its abort code, 0 when it succeeded."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        function = ir.FunctionType(word, [word, word, word]).as_pointer()
        return builder.call(builder.inttoptr(arguments[0], function), arguments[1:])

    return types.int64(types.int64, types.int64, types.int64, types.int64), generate
