"""A method of ufuncs' protocol, called with what is no ufunc."""

import numpy

numpy.empty(1).__array_ufunc__(2.3, 1)
