"""a GeoTIFF in memory, a warp between projections, a mask, GDAL's error"""

import numpy as np
import rasterio
from rasterio import features, warp
from rasterio.crs import CRS
from rasterio.io import MemoryFile
from rasterio.transform import from_origin


def work(tell):
    data = (np.add.outer(np.arange(80), np.arange(100)) % 251).astype("uint8")
    transform = from_origin(10.0, 50.0, 0.01, 0.01)
    options = {"driver": "GTiff", "width": 100, "height": 80, "count": 2, "dtype": "uint8", "crs": "EPSG:4326"}
    with MemoryFile() as memory:
        with memory.open(transform=transform, compress="deflate", tiled=True, blockxsize=64, blockysize=64, **options) as file:
            file.write(data, 1)
            file.write(255 - data, 2)
            file.update_tags(author="ü")
        with memory.open() as file:
            tell("read", file.read())
            tell("profile", [str(file.crs), list(file.transform), file.tags()["author"]])
            tell("window", file.read(1, window=((10, 30), (20, 60)), out_shape=(7, 9)))
    target = np.zeros((90, 90), "uint8")
    warp.reproject(
        data, target, src_transform=transform, src_crs=CRS.from_epsg(4326), dst_crs=CRS.from_epsg(3857),
        dst_transform=from_origin(1_113_194, 6_446_275, 1200, 1200), num_threads=2,
    )
    tell("warped", target)
    tell("bounds", warp.transform_bounds("EPSG:4326", "EPSG:32632", 9, 48, 11, 50))
    shapes = list(features.shapes((data > 120).astype("uint8"), transform=transform))
    tell("shapes", [len(shapes), repr(shapes[0])])
    try:
        rasterio.open("/no/such/file.tif")
    except rasterio.errors.RasterioIOError as error:
        tell("error", str(error))
