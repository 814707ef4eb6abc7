"""Compile policy, which lies below all folders with kernels: `mainstem/jit.py`."""

from __future__ import annotations

from mainstem.jit import JIT_ENABLED, cache_folder, cache_here, compile_kernel, inlined, kernel, plain

__all__ = ["JIT_ENABLED", "cache_folder", "cache_here", "compile_kernel", "inlined", "kernel", "plain"]
