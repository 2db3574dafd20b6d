"""escapes, formats and joins"""

from markupsafe import Markup, _speedups, escape


def work(tell):
    tell("compiled", _speedups.__file__.endswith(".so"))
    tell("escape", [str(escape(text)) for text in ("<a href='x'>&\"</a>", "ünï<", "日本<>" * 500)])
    tell("format", str(Markup("<b>%s</b> {}").format("<i>") % ("&",)))
    tell("join", str(Markup(",").join(["<", Markup("<br>"), 3])))
    tell("strip", Markup("<p>a &amp; <b>b</b></p>").striptags())
