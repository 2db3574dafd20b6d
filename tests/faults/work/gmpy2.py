"""A shift whose result GMP cannot hold: it writes a line and calls abort."""

from gmpy2 import mpz

mpz(8800501504522337) << 16907148584713995
