"""A factor whose double has more than 31 bits."""

from PIL import Image

Image.new("L", (4, 4)).reduce(2**31 - 1)
