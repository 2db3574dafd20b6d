"""unions, buffers, a tree, vectors of geometries, GEOS's errors and warnings"""

import numpy as np
import shapely
from shapely import STRtree, affinity, ops, wkb, wkt
from shapely.geometry import LineString, Point, Polygon, shape


def work(tell):
    circles = shapely.buffer(shapely.points(np.random.default_rng(4).random((200, 2)) * 10), 0.4)
    union = shapely.union_all(circles)
    tell("union", [union.area, shapely.get_num_geometries(union)])
    tell("tree", np.sort(STRtree(circles).query(Point(5, 5).buffer(2))))
    tell("matrix", shapely.distance(circles[:20, None], circles[None, :20]))
    tell("wkb", wkb.dumps(Polygon([(0, 0), (4, 0), (4, 3)], [[(1, 0.2), (2, 0.2), (2, 0.5)]])))
    tell("text", wkt.dumps(LineString([(0, 0), (1, 1.5)]).interpolate(0.3, normalized=True)))
    tell("valid", shapely.is_valid_reason(Polygon([(0, 0), (1, 1), (1, 0), (0, 1)])))
    tell("split", [part.length for part in ops.split(LineString([(0, 0), (9, 0)]), Point(3, 0)).geoms])
    tell("rotated", list(affinity.rotate(LineString([(0, 0), (1, 0)]), 30).coords))
    tell("mapping", shape({"type": "Point", "coordinates": [1, 2]}).wkt)
    tell("voronoi", shapely.voronoi_polygons(shapely.multipoints(np.arange(20.0).reshape(10, 2) ** 2)).area)
    try:
        wkt.loads("POINT (1")
    except shapely.errors.ShapelyError as error:
        tell("error", str(error))
