"""Benchmarks: `python -m mainstem.bench --help` lists them, docs/benchmarks.md tells how to repeat each figure.

Every throughput figure comes with a digest of the state and of the outputs that it ended in. Figures for the same
events must show the same digests; otherwise the command fails.
"""
