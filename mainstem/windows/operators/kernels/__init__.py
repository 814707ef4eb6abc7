"""Loops of the operators' threads, over the arrays that they share."""
