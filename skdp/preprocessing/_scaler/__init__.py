"""Scales of columns: what is released, the kernels that read rows, and what follows from both."""
