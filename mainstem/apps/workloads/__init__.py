"""Workloads of the apps: data to run them on, and what must hold afterwards."""
