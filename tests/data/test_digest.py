import numpy as np
from containers import dense_containers, sparse_containers
from scipy import sparse

from skdp import RowBlocks
from skdp.data.sources import as_source, digest


def make_data(n_rows=9000, n_features=7, density=0.5):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n_rows, n_features)).astype(np.float32).astype(np.float64)
    X[generator.random(X.shape) > density] = 0.0
    return X


X = make_data()


def in_blocks(make, size, dtype=np.float64):
    return RowBlocks(
        lambda: (make(X[start : start + size]) for start in range(0, len(X), size)),
        shape=X.shape,
        dtype=dtype,
    )


def with_explicit_zeros(X):
    columns = np.indices(X.shape)[1]
    return sparse.csr_array(
        (X.ravel(), columns.ravel(), np.arange(0, X.size + 1, X.shape[1])), shape=X.shape
    )


OTHERS = {
    "strided": np.repeat(X, 2, axis=0)[::2],
    "negative zeros": np.where(X == 0, -0.0, X),
    "sparse float32": sparse.csr_array(X.astype(np.float32)),
    "explicit zeros": with_explicit_zeros(X),
    "explicit negative zeros": -with_explicit_zeros(-X),
    "dense blocks": in_blocks(np.array, 999),
    "blocks of one row": in_blocks(np.array, 1),
    "Fortran blocks": in_blocks(np.asfortranarray, 4097),
    "sparse blocks": in_blocks(sparse.csr_array, 777),
    "float32 blocks": in_blocks(lambda x: x.astype(np.float32), 999, np.float32),
}


def test_digest_is_that_of_the_values_whatever_holds_them(tmp_path):
    dense = dense_containers(X, tmp_path / "X")
    for name, container in (dense | sparse_containers(X) | OTHERS).items():
        if hasattr(container, "dtype"):
            assert digest(as_source(container)) == digest(as_source(X)), name


def test_digest_changes_with_the_data():
    generator = np.random.default_rng(1)
    changed = [X]
    for value in (np.nextafter(X[17, 3], 9), -X[17, 3], 0.0, 1e-300, 5e-324):
        changed.append(X.copy())
        changed[-1][17, 3] = value
    swapped = X.copy()
    swapped[[10, 4500]] = swapped[[4500, 10]]
    moved = X.copy()
    moved[20] = np.roll(moved[20], 1)
    longer, wider = np.vstack([X, np.zeros(7)]), np.column_stack([X, np.zeros(len(X))])
    changed += [swapped, moved, X[:, ::-1], X[::-1], X[:-1], X[:, :-1], longer, wider, 2 * X]
    changed.append(X[generator.permutation(len(X))])
    digests = {digest(as_source(x)) for x in changed}
    assert X[17, 3] != 0
    assert len(digests) == len(changed)


def test_equal_values_in_another_shape_have_another_digest():
    full, empty = np.arange(1.0, 13.0), np.zeros(12)
    shapes = [(1, 12), (2, 6), (3, 4), (4, 3), (6, 2), (12, 1)]
    digests = {digest(as_source(v.reshape(shape))) for v in (full, empty) for shape in shapes}
    digests.add(digest(as_source(np.zeros((3, 5)))))
    assert len(digests) == 2 * len(shapes) + 1


def test_rows_do_not_run_into_each_other():
    # Equal values in equal columns, but a row break in another place.
    first = np.array([[1.0, 0, 0], [0, 2, 3]])
    second = np.array([[1.0, 2, 0], [0, 0, 3]])
    assert digest(as_source(first)) != digest(as_source(second))


def test_digest_leaves_the_data_alone():
    matrix = with_explicit_zeros(X)
    for part in (matrix.data, matrix.indices, matrix.indptr):
        part.flags.writeable = False
    digest(as_source(matrix))
    assert matrix.nnz == X.size
