"""How heavy the house is: lines of code and of docstrings, parameters, constants, small helpers.

`python -m benchmarks.house.weight [FOLDER]` prints it of this checkout, or of another one, and with
--helpers instead the functions that one place names and that have at most three statements.
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

NOT_CODE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
)
MOST_STATEMENTS = 3
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def weigh(path):
    """Count what one file holds."""
    text = path.read_text()
    tree = ast.parse(text)
    in_docstrings = {
        number
        for node in ast.walk(tree)
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None
        for number in range(node.body[0].lineno, node.body[0].end_lineno + 1)
    }
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    written = {
        number
        for token in tokens
        if token.type not in NOT_CODE
        for number in range(token.start[0], token.end[0] + 1)
    }
    return Counter(
        {
            "modules": 1,
            "code lines": len(written - in_docstrings),
            "docstring lines": len(in_docstrings),
            "functions": sum(isinstance(node, ast.FunctionDef) for node in ast.walk(tree)),
            "constants": sum(map(is_number, tree.body)),
            **Counter(f"constants, {kind(said)}" for said in remarks(text).values()),
        }
    )


def is_number(node):
    """Whether a statement of a module gives a name in capitals to a number, or to several."""
    if isinstance(node, ast.AnnAssign):
        targets, value = [node.target], node.value
    elif isinstance(node, ast.Assign):
        targets, value = node.targets, node.value
    else:
        return False
    names = [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
    has_number = value is not None and any(
        isinstance(one, ast.Constant) and type(one.value) in (int, float) for one in ast.walk(value)
    )
    return has_number and all(name.isupper() for name in names)


def remarks(text):
    """Return what is said of each number of a module: beside it, and above it and its like.

    A comment holds for the numbers below it, up to the next comment or blank line.
    """
    found, above, end = {}, "", 0
    lines = text.splitlines(keepends=True)
    for node in ast.parse(text).body:
        first = node.lineno
        while first > 1 and lines[first - 2].startswith("#"):
            first -= 1
        if first < node.lineno or first > end + 1 or not is_number(node):
            above = comments(lines[first - 1 : node.lineno - 1])
        if is_number(node):
            found[node] = f"{above} {comments(lines[node.lineno - 1 : node.end_lineno])}"
        end = node.end_lineno
    return found


def comments(lines):
    """Join the comments of some whole statements."""
    tokens = tokenize.generate_tokens(io.StringIO("".join(lines)).readline)
    return " ".join(one.string.lstrip("#: ") for one in tokens if one.type == tokenize.COMMENT)


def kind(said):
    """Tell what a remark says of the choice of a number."""
    kinds = {"benchmarks/": "studied", "not studied": "not studied", "not tuned": "not tuned"}
    return next((kinds[sign] for sign in kinds if sign in said.lower()), "unsaid")


def parameters(text):
    """Count the parameters of the constructors of a file's public classes."""
    return {
        node.name: sum(map(is_parameter, node.body))
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef) and node.name.startswith("DP")
    }


def is_parameter(node):
    """Whether a statement of a public class declares a parameter of its constructor."""
    is_field = isinstance(node, ast.AnnAssign) and node.target.id != "_"
    return is_field and not ast.unparse(node.annotation).startswith("ClassVar")


def small_helpers(paths):
    """List functions of modules with at most three statements, which one place names."""
    trees = {path: ast.parse(path.read_text()) for path in paths}
    named = Counter(
        node.id if isinstance(node, ast.Name) else node.attr
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
    )
    return [
        (path, node.name)
        for path, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and named[node.name] == 1
        if len(node.body) - (ast.get_docstring(node) is not None) <= MOST_STATEMENTS
    ]


def main():
    arguments = [one for one in sys.argv[1:] if one != "--helpers"]
    root = Path(arguments[0] if arguments else Path(__file__).parents[2])
    paths = sorted((root / "skdp").rglob("*.py"))
    helpers = small_helpers(paths)
    if "--helpers" in sys.argv:
        for path, name in helpers:
            print(path.relative_to(root), name)
        return
    total = sum(map(weigh, paths), Counter({"functions with one caller": len(helpers)}))
    taken = {name: n for path in paths for name, n in parameters(path.read_text()).items()}
    print("| | |\n|---|---|")
    for name, number in {**total, **taken}.items():
        print(f"| {name} | {number:,} |")


if __name__ == "__main__":
    main()
