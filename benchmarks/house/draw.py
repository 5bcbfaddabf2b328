"""Remarks, docstrings and functions of the package, drawn at random, for readers who are new to it.

`python -m benchmarks.house.draw SEED [NUMBER]` prints so many of them, 50 by default. Above each
stand the lines that begin the class and the function around it, as a reader of the file sees them.
"""

import ast
import random
import sys
from pathlib import Path

from benchmarks.house.weight import DOCUMENTED


def passages(tree, lines):
    """List the functions, the docstrings and the remarks of a file, each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.lineno, "\n".join(lines[node.lineno - 1 : node.end_lineno])
        if isinstance(node, DOCUMENTED) and (docstring := ast.get_docstring(node)):
            yield node.body[0].lineno, docstring.partition("\n\n")[0]
    above = -1
    for number, line in enumerate(lines):
        if line.lstrip().startswith("# ") and number != above + 1:
            last = number
            while lines[last].lstrip().startswith("#"):
                last += 1
            yield number + 1, "\n".join(lines[number : last + 3])
        above = number if line.lstrip().startswith("#") else above


def heads(tree, lines, line):
    """List the lines that begin the classes and functions around a line."""
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED[1:]) and node.lineno < line <= node.end_lineno:
            yield from lines[node.lineno - 1 : node.body[0].lineno - 1]


def main(seed, number="50"):
    """Draw passages of all files; each is as likely as any other."""
    files = {}
    for path in sorted(Path("skdp").rglob("*.py")):
        text = path.read_text()
        files[path] = ast.parse(text), text.splitlines()
    found = [(path, *one) for path, parsed in files.items() for one in passages(*parsed)]
    for path, line, text in random.Random(int(seed)).sample(found, int(number)):
        print(f"{path}:{line}", *heads(*files[path], line), text, "", sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
