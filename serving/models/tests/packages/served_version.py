"""The version of the code. A package of a version has another source here."""

VERSION = 0
