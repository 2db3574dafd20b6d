"""A column index far beyond the matrix."""

import numpy
from scipy.sparse import csr_matrix

csr_matrix(([33, 44, 55], [0, 1, 2**30], [0, 3, 3, 3]), dtype=numpy.int8, shape=(3, 3)).toarray()
