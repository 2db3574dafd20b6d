"""transformations, geodesics, systems from PROJ's database, an error"""

import numpy as np
import pyproj


def work(tell):
    transformer = pyproj.Transformer.from_crs("EPSG:4326", "EPSG:32633", always_xy=True)
    tell("utm", np.array(transformer.transform(np.linspace(12, 18, 50), np.linspace(45, 55, 50))))
    tell("steps", transformer.definition)
    geod = pyproj.Geod(ellps="WGS84")
    tell("line", geod.inv(13.4, 52.5, -74.0, 40.7))
    tell("points", geod.npts(0, 0, 90, 45, 7))
    crs = pyproj.CRS.from_epsg(27700)
    tell("system", [crs.name, crs.area_of_use.bounds, crs.to_proj4()])
    tell("wkt", crs.to_wkt())
    tell("units", len(pyproj.get_units_map()) > 10)
    try:
        pyproj.CRS("EPSG:99999999")
    except pyproj.exceptions.CRSError as error:
        tell("error", str(error).split(":")[0])
