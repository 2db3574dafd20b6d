"""a document drawn, saved, read, rendered; text and tables found"""

import pymupdf


def work(tell):
    document = pymupdf.open()
    for number in range(3):
        page = document.new_page(width=300, height=400)
        page.insert_text((40, 60), f"Page {number}: größe", fontsize=14)
        page.draw_rect(pymupdf.Rect(30, 90, 200, 150), color=(1, 0, 0), fill=(0.9, 0.9, 1))
        for row in range(4):
            page.draw_line((30, 200 + 20 * row), (230, 200 + 20 * row))
            page.draw_line((30 + 66 * row, 200), (30 + 66 * row, 260))
            if row < 3:
                page.insert_text((40, 214 + 20 * row), f"c{row}")
    document.set_toc([[1, "first", 1], [2, "second", 2]])
    data = document.tobytes(deflate=True, no_new_id=True)
    again = pymupdf.open(stream=data)
    tell("text", [page.get_text() for page in again])
    tell("pixels", again[1].get_pixmap(dpi=90).samples)
    tell("toc", again.get_toc())
    tell("tables", [table.extract() for table in again[0].find_tables()])
    tell("search", [list(found) for found in again[2].search_for("größe")])
    tell("drawings", len(again[0].get_drawings()))
    tell("svg", len(again[0].get_svg_image()) > 1000)
    try:
        pymupdf.open(stream=b"nothing", filetype="pdf")
    except pymupdf.FileDataError as error:
        tell("error", type(error).__name__)
