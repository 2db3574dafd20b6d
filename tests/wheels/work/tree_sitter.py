"""a grammar, an edited tree, queries"""

import tree_sitter
import tree_sitter_python

SOURCE = b"class A:\n    def f(self, x):\n        return [x * i for i in range(10)]\n\ndef g(): pass\n" * 20


def work(tell):
    language = tree_sitter.Language(tree_sitter_python.language())
    parser = tree_sitter.Parser(language)
    tree = parser.parse(SOURCE)
    tell("tree", str(tree.root_node))
    query = tree_sitter.Query(language, "(function_definition name: (identifier) @name) (class_definition name: (identifier) @class)")
    captures = tree_sitter.QueryCursor(query).captures(tree.root_node)
    tell("captures", {name: sorted([node.start_byte, node.text] for node in nodes) for name, nodes in sorted(captures.items())})
    tree.edit(0, 5, 8, (0, 0), (0, 5), (0, 8))
    again = parser.parse(b"other = " + SOURCE[5:], tree)
    tell("edited", [str(again.root_node.children[0]), again.root_node.has_error])
    tell("ranges", [[one.start_byte, one.end_byte] for one in tree.changed_ranges(again)])
    try:
        tree_sitter.Query(language, "(no_such_node)")
    except tree_sitter.QueryError as error:
        tell("error", str(error))
