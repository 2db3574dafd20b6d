"""parsing, XPath, XSLT, schemas, HTML, custom resolvers and functions, errors"""

import io

from lxml import etree, html, objectify

SHEET = """<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform" xmlns:w="urn:work">
<xsl:template match="/"><out><xsl:for-each select="//item[@n &gt; 5]"><i n="{@n}"><xsl:value-of select="w:twice(.)"/></i>
</xsl:for-each></out></xsl:template></xsl:stylesheet>"""
SCHEMA = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="root"><xs:complexType><xs:sequence>
<xs:element name="item" maxOccurs="9"/></xs:sequence></xs:complexType></xs:element></xs:schema>"""


class Resolver(etree.Resolver):
    def resolve(self, url, public_id, context):
        return self.resolve_string("<!ENTITY who 'resolved'>", context)


def work(tell):
    tree = etree.fromstring("<root>" + "".join(f'<item n="{i}">t{i}é</item>' for i in range(40)) + "</root>")
    tell("xpath", tree.xpath("//item[position() mod 7 = 0]/@n | //item[last()]/text()"))
    space = etree.FunctionNamespace("urn:work")
    space["twice"] = lambda context, nodes: nodes[0].text * 2
    tell("xslt", str(etree.XSLT(etree.fromstring(SHEET))(tree)))
    schema = etree.XMLSchema(etree.fromstring(SCHEMA))
    tell("schema", [schema.validate(tree), [entry.message for entry in schema.error_log]])
    parser = etree.XMLParser(load_dtd=True, resolve_entities=True)
    parser.resolvers.add(Resolver())
    tell("entity", etree.tostring(etree.fromstring('<!DOCTYPE a SYSTEM "x:y"><a>&who;</a>', parser)))
    events = [(event, one.tag) for event, one in etree.iterparse(io.BytesIO(etree.tostring(tree)), events=("start", "end"))]
    tell("events", events)
    page = html.fromstring("<p>a<br>b<a href='/x?y=1&z'>link</a><table><tr><td>1")
    tell("html", html.tostring(page, pretty_print=True))
    tell("objects", [float(value) for value in objectify.fromstring("<a><b>1.5</b><b>2</b></a>").b])
    for wrong in ("<a><b></a>", "<a>&nothing;</a>", "\0"):
        try:
            etree.fromstring(wrong)
        except (etree.XMLSyntaxError, ValueError) as error:
            tell(wrong, str(error))
    tell("canonical", etree.tostring(tree[:3][0], method="c14n"))
