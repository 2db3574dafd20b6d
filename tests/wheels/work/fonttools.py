"""a font built from curves, compiled, read again; cubic to quadratic curves in C"""

import io

from fontTools.cu2qu import cu2qu, curves_to_quadratic
from fontTools.fontBuilder import FontBuilder
from fontTools.misc import bezierTools
from fontTools.pens.boundsPen import BoundsPen
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib import TTFont


def glyph(size):
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    pen.lineTo((size, 0))
    pen.qCurveTo((size, size), (0, size))
    pen.closePath()
    return pen.glyph()


def work(tell):
    tell("compiled", [cu2qu.COMPILED, bezierTools.COMPILED])
    names = [".notdef"] + [f"g{i}" for i in range(60)]
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({97 + i: name for i, name in enumerate(names[1:])})
    builder.setupGlyf({name: glyph(10 * i + 5) for i, name in enumerate(names)})
    builder.setupHorizontalMetrics({name: (600, 0) for name in names})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Work", "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.font["head"].created = builder.font["head"].modified = 3_000_000_000
    builder.font.recalcTimestamp = False
    file = io.BytesIO()
    builder.save(file)
    tell("font", file.getvalue())
    font = TTFont(io.BytesIO(file.getvalue()))
    pen = BoundsPen(font.getGlyphSet())
    font.getGlyphSet()["g7"].draw(pen)
    tell("bounds", pen.bounds)
    curves = [[(0, 0), (50, 100 + i), (100, 100), (150, i)] for i in range(5)]
    tell("quadratic", curves_to_quadratic(curves, [1.0] * 5))
    tell("length", bezierTools.calcCubicArcLength((0, 0), (50, 100), (100, 100), (150, 0)))
