"""A computation on a chunked array without chunks."""

import pyarrow
import pyarrow.compute

pyarrow.compute.indices_nonzero(pyarrow.compute.is_valid(pyarrow.chunked_array([pyarrow.array([0])])[0:0]))
