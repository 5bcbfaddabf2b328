"""Personal models on a shared representation: problem, plan, fit, an algorithm a file."""
