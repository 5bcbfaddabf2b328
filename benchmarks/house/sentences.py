"""Sentences of pages, docstrings, remarks, warnings and errors, drawn at random, to be graded.

`python -m benchmarks.house.sentences SEED [NUMBER]` prints 50, half of them from pages.
A sentence fails if a reader who knows scikit-learn, but not this package, has to read it twice.
"""

import ast
import random
import re
import sys
from pathlib import Path

_MADE = {"auto_examples", "generated"}
_WORDS = re.compile(r"[a-z]\S* \S+ \S")


def paragraphs(text, first=1):
    """List the paragraphs of a page or a docstring, each with its line; no code, no directives."""
    for found in re.finditer(r".*\S.*\n?(?:(?! *(?:\* )?- ).*\S.*\n?)*", text):
        if not re.match(r"\s*(?:\* )?-?\s*(\.\. |>>>|:\w+:|```|See Also|.*\n *--)", found[0]):
            yield first + text.count("\n", 0, found.start()), found[0]


def texts(path):
    """List the texts of a file, each with its line."""
    text = path.read_text()
    if path.suffix != ".py":
        yield from paragraphs(text)
        return
    tree = ast.walk(ast.parse(re.sub(r"\bf(?=\")", "", text)))  # fields of warnings stay in braces
    for node in tree:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from paragraphs(node.value, node.lineno)
    for found in re.finditer(r"(?:^ *#:? [^-].*\n)+", text, re.MULTILINE):
        remark = re.sub(r"^ *#:? ?", "", found[0], flags=re.MULTILINE)
        yield 1 + text.count("\n", 0, found.start()), remark


def sentences(path):
    """List the sentences of a file, each with its line."""
    for line, text in texts(path):
        start = 0
        for end in re.finditer(r"(?<![ (][A-Z])[.?!:][)*`]*(?=\s+\S)(?!\s+[a-z])|\Z", text):
            said = " ".join(text[start : end.end()].split())
            if said.endswith((".", "?", "!", ":")) and _WORDS.search(said):
                yield line + text.count("\n", 0, start), said
            start = end.end() + 1


def main(seed, number="50"):
    """Draw sentences of pages, then of the package; in each, all are equally likely."""
    pages = [one for one in Path("docs").rglob("*.rst") if not _MADE & {*one.parts}]
    generator = random.Random(int(seed))
    for paths in ([Path("README.md"), *pages], [*Path("skdp").rglob("*.py")]):
        found = [(path, *one) for path in sorted(paths) for one in sentences(path)]
        for path, line, said in generator.sample(found, int(number) // 2):
            print(f"{path}:{line}\n    {said}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
