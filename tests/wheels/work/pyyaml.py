"""libyaml's loader and emitter, tags, anchors, an error's place"""

import yaml

TEXT = """
base: &base {kind: tree, size: [1, 2.5, 1e3]}
more: {<<: *base, kind: bush}
text: |
  two
  lines
when: 2001-12-14T21:59:43.10-05:00
own: !pair [3, 4]
"""


class Loader(yaml.CSafeLoader):
    pass


Loader.add_constructor("!pair", lambda loader, node: tuple(loader.construct_sequence(node)))


def work(tell):
    value = yaml.load(TEXT, Loader)
    tell("loaded", repr(value))
    tell("dumped", yaml.dump({str(i): [i, i / 7, None, {"a": i}] for i in range(200)}, Dumper=yaml.CSafeDumper))
    tell("events", [type(event).__name__ for event in yaml.parse(TEXT, yaml.CLoader)])
    try:
        yaml.load("a: [1, 2\nb: }", yaml.CSafeLoader)
    except yaml.YAMLError as error:
        tell("error", str(error))
