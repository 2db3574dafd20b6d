"""Code of modules whose import statements at the top bind their names when these are used.

A module's syntax tree decides for each name whether that shows: a name that the module binds in another way too, a name that nothing
uses (such an import is made for its effects), imports under conditions and in `try` stay as they are. A module that reads its own
namespace as a whole stays as it is.

Compiled code is kept in a folder of the user (`code_cache`). An entry is valid for one path, time of modification and size, as in CPython's own.
"""

import importlib.util
import os
import sys

from _hydrozoa import code_cache

DECLARE = "__hydrozoa_import__"
"""The function by which code of a module declares names. In the module's dict while its code runs."""

_FORMAT = "1"


def load(path, name, is_package, rules, folder):
    """The code of a module, and None where it stays as it is."""
    stat = os.stat(path)
    head = (_FORMAT, sys.version, sys.flags.optimize, path, name, stat.st_mtime_ns, stat.st_size, rules.key(name))
    entry = None
    if folder is not None:
        entry = os.path.join(folder, importlib.util.source_hash(repr(head[1:5]).encode()).hex())
        kept = code_cache.find(entry, head)
        if kept is not None:
            return kept[0]
    with open(path, "rb") as file:
        code = _compile(file.read(), path, name, is_package, rules)
    if entry is not None:
        code_cache.keep(entry, head, code)
    return code


def _compile(source, path, name, is_package, rules):
    import ast

    tree = ast.parse(source, path)
    if rules.stays(name) or _reads_its_namespace(ast, tree) or _deletes_submodules(ast, tree, path):
        return None
    module = _Module(ast, tree, path, name, is_package, rules)
    body = [new for statement in tree.body for new in module.rewritten(statement)]
    if not module.changed:
        return None
    tree.body = body
    ast.fix_missing_locations(tree)
    return compile(tree, path, "exec", dont_inherit=True)


def _reads_its_namespace(ast, tree):
    """Whether code reads the module's dict in another way than by key."""
    by_key = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):
            by_key.add(id(node.value))
        elif isinstance(node, ast.Attribute) and node.attr in ("get", "setdefault", "update", "pop", "__contains__"):
            by_key.add(id(node.value))
        elif isinstance(node, ast.Compare):
            by_key.update(id(other) for test, other in zip(node.ops, node.comparators) if isinstance(test, (ast.In, ast.NotIn)))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("exec", "eval"):
            by_key.update(id(argument) for argument in node.args)

    def reads(node, is_local):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args and not node.keywords:
            name = node.func.id
            if (name == "globals" or name in ("locals", "vars", "dir") and not is_local) and id(node) not in by_key:
                return True
        is_local = is_local or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        return any(reads(child, is_local) for child in ast.iter_child_nodes(node))

    return reads(tree, False)


def _deletes_submodules(ast, tree, path):
    """Whether code deletes submodules that no statement of it binds: the import of one binds it in its package."""
    bound, deleted = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (deleted if isinstance(node.ctx, ast.Del) else bound if isinstance(node.ctx, ast.Store) else set()).add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            bound.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
    return any(_has_submodule(os.path.dirname(path), name) for name in deleted - bound)


def _has_submodule(folder, name):
    path = os.path.join(folder, name)
    return os.path.exists(path + ".py") or os.path.isdir(path)


class _Module:
    """Decides about the import statements of one module."""

    def __init__(self, ast, tree, path, name, is_package, rules):
        self.ast, self.name, self.is_package, self.rules = ast, name, is_package, rules
        self.folder = os.path.dirname(path)
        self.changed = False
        self.eager = _bound_otherwise(ast, tree)
        self.used, self.chains = _uses(ast, tree)

    def rewritten(self, statement):
        """The statements that replace one at the top of the module."""
        ast = self.ast
        if isinstance(statement, ast.Import):
            return self._split(statement, statement.names, lambda alias: self._is_lazy(alias), self._declare)
        if isinstance(statement, ast.ImportFrom) and statement.module != "__future__":
            target = self._absolute(statement.module or "", statement.level)
            if target is not None:
                return self._split(statement, statement.names, lambda alias: self._is_lazy_from(target, alias), self._declare_from)
        deferred = self.rules.deferred(self.name)
        if deferred and any(deferred & set(self._targets(node)) for node in ast.walk(statement)):
            self.changed = True
            return [ast.copy_location(ast.Pass(), statement)]
        return [statement]

    def _targets(self, node):
        if isinstance(node, self.ast.Import):
            return [alias.name for alias in node.names]
        if isinstance(node, self.ast.ImportFrom):
            target = self._absolute(node.module or "", node.level)
            return [target] + [f"{target}.{alias.name}" for alias in node.names]
        return []

    def _split(self, statement, aliases, is_lazy, declare):
        """Consecutive names of one statement that stay, or do not, keep their order."""
        statements = []
        for alias in aliases:
            lazy = is_lazy(alias)
            if statements and statements[-1][0] == lazy:
                statements[-1][1].append(alias)
            else:
                statements.append((lazy, [alias]))
        self.changed = self.changed or any(lazy for lazy, _ in statements)
        return [self.ast.copy_location(declare(statement, names, lazy), statement) for lazy, names in statements]

    def _declare(self, statement, aliases, lazy):
        if not lazy:
            return self.ast.Import(names=aliases)
        return self._call(statement, None, 0, tuple((alias.name, alias.asname) for alias in aliases))

    def _declare_from(self, statement, aliases, lazy):
        if not lazy:
            return self.ast.ImportFrom(module=statement.module, names=aliases, level=statement.level)
        names = tuple((alias.name, alias.asname or alias.name) for alias in aliases)
        return self._call(statement, statement.module or "", statement.level, names)

    def _call(self, statement, module, level, names):
        ast = self.ast
        arguments = [ast.Constant(value) for value in (statement.lineno, module, level, names)]
        return ast.Expr(ast.Call(ast.Name(DECLARE, ast.Load()), arguments, []))

    def _is_lazy(self, alias):
        bound = alias.asname or alias.name.partition(".")[0]
        if bound in self.eager or not self._is_used(bound) or self.rules.is_eager(alias.name):
            return False
        # `import a.b` of which the module uses nothing below `a` is there for the effects of a.b.
        if alias.asname is not None or "." not in alias.name or alias.name in self.rules.ATTRIBUTES.get(self.name, ()):
            return True
        return ".".join(alias.name.split(".")[:2]) in self.chains

    def _is_lazy_from(self, target, alias):
        bound = alias.asname or alias.name
        if alias.name == "*" or bound in self.eager or not self._is_used(bound):
            return False
        full = f"{target}.{alias.name}"
        if self.rules.is_eager(target) or self.rules.is_eager(full):
            return False
        # A package's attribute and its submodule of the same name: which of both it is depends on the order of imports.
        return not (self.is_package and full != f"{self.name}.{bound}" and _has_submodule(self.folder, bound))

    def _is_used(self, bound):
        # A package imports names for its users.
        return self.is_package or bound in self.used

    def _absolute(self, module, level):
        """The full name of a statement's module, or None for one that reaches beyond the top."""
        if not level:
            return module
        package = self.name if self.is_package else self.name.rpartition(".")[0]
        for _ in range(level - 1):
            package = package.rpartition(".")[0]
        if not package:
            return None
        return f"{package}.{module}" if module else package


def _bound_otherwise(ast, tree):
    """Names of the module that are not bound by one import statement at its top alone."""
    names, imported = set(), {}

    def visit(node, is_local):
        if isinstance(node, ast.Global):
            names.update(node.names)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and not is_local:
            names.add(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and not is_local:
            names.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name and not is_local:
            names.add(node.name)
        elif type(node).__name__ in ("MatchAs", "MatchStar", "TypeAlias") and not is_local and isinstance(node.name, str):
            names.add(node.name)
        elif type(node).__name__ == "MatchMapping" and node.rest and not is_local:
            names.add(node.rest)
        elif isinstance(node, (ast.Import, ast.ImportFrom)) and not is_local:
            names.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
        inner = is_local or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef))
        for child in ast.iter_child_nodes(node):
            visit(child, inner)

    for statement in tree.body:
        if not isinstance(statement, (ast.Import, ast.ImportFrom)):
            visit(statement, False)
            continue
        for alias in statement.names:
            is_root = isinstance(statement, ast.Import) and alias.asname is None
            bound = alias.asname or (alias.name.partition(".")[0] if is_root else alias.name)
            # `import a.b` and `import a.c` bind the same module.
            if bound in imported and not (is_root and imported[bound]):
                names.add(bound)
            imported[bound] = is_root
    return names


def _uses(ast, tree):
    """Names that the module reads or mentions in texts, and chains a.b of attributes."""
    used, chains = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            used.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            chains.add(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
            words = "".join(letter if letter.isidentifier() or letter.isdigit() else " " for letter in node.value)
            used.update(words.split())
    return used, chains
