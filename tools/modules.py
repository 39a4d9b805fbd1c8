"""Which modules of a crate use which others, and which of them form a circle.

A module is a file. It uses the file in which a name that it imports, or writes with its path, is *defined*: names that
a parent only passes on (`pub use`) lead to their definition. A file whose inherent `impl` extends a type of another
file is used by every file that calls one of its methods, where the method's name is one of a kind in the crate. Tests
(`#[cfg(test)]`) may use what they like.

This reads the sources as text; it knows no macros and no types. What it finds is there; it may miss a use.
"""
import pathlib
import re

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
VISIBILITY = re.compile(r"\bpub\(in [\w:]+\)\s")
STRING = re.compile(r'b?r#"(?:.*?)"#|b?"(?:\\.|[^"\\])*"', re.S)
TEST_BLOCK = re.compile(r"#\[cfg\((?:test|all\(test[^]]*)\)\]\s*(?:#\[[^]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?(mod\s+(\w+)\s*;|[^;{]*[{;])", re.S)
MODULE = re.compile(r"^\s*(?:#\[[^]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;", re.M)
ITEM = re.compile(
    r"^(?:pub(?:\([^)]*\))?\s+)?(?:default\s+|const\s+|async\s+|unsafe\s+|extern\s+\"C\"\s+)*"
    r"(?:struct|enum|union|fn|trait|type|const|static)\s+(?:mut\s+)?(\w+)",
    re.M,
)
USE = re.compile(r"^[ \t]*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.M)
IMPL = re.compile(r"^impl\b(?:\s*<[^{]*?>)?\s+(?:(?!\bfor\b)[^{])*?\{", re.M)
METHOD = re.compile(r"^    (?:pub(?:\([^)]*\))?\s+)?(?:const\s+|async\s+|unsafe\s+)*fn\s+(\w+)", re.M)
# Methods of the standard library: a call of one says nothing of whose it is.
COMMON = set(
    "all any append as_mut as_ref as_slice chain clear clone cmp collect contains contains_key copied count drain drop entry "
    "enumerate extend filter find first flat_map fold get get_mut insert into is_empty iter iter_mut keys last len map max "
    "min new next parse peek pop pop_front position push push_back remove replace resize retain reverse rev set skip sort sort_by "
    "split split_at split_off starts_with step sum swap take then truncate unwrap_or values values_mut windows with write zip".split()
)
PATH = re.compile(r"\b((?:crate|super|self|\w+)(?:::\w+)+)")


class Module:
    def __init__(self, path, name, parent):
        self.path, self.name, self.parent = path, name, parent
        self.children = {}
        self.text = strip(path.read_text())
        self.items = set(ITEM.findall(self.text))
        self.names = {}  # name -> path that it names, by `use`
        self.globs = []

    def root(self):
        return self if self.parent is None else self.parent.root()


def strip(text):
    text = VISIBILITY.sub("pub(crate) ", COMMENT.sub("", STRING.sub('""', text)))
    while True:
        match = TEST_BLOCK.search(text)
        if not match:
            return text
        end = match.end()
        if text[end - 1] == "{":
            end = closing(text, end)
        text = text[: match.start()] + text[end:]


def closing(text, start):
    depth = 1
    while depth and start < len(text):
        depth += {"{": 1, "}": -1}.get(text[start], 0)
        start += 1
    return start


def root_of(source):
    """The file of a crate's root: of its library, else of its binary."""
    library = source / "lib.rs"
    return library if library.exists() else source / "main.rs"


def load(path, name="crate", parent=None):
    module = Module(path, name, parent)
    inside = path.parent if path.name in ("lib.rs", "main.rs", "mod.rs") else path.with_suffix("")
    for child in MODULE.findall(module.text):
        for candidate in (inside / f"{child}.rs", inside / child / "mod.rs"):
            if candidate.exists():
                module.children[child] = load(candidate, child, module)
    for _, tree in USE.findall(module.text):
        for path_, alias in flatten(tree):
            if alias == "*":
                module.globs.append(path_)
            else:
                module.names[alias] = path_
    return module


def flatten(tree, prefix=()):
    tree = " ".join(tree.split())
    brace = tree.find("{")
    if brace >= 0:
        head = tuple(part.strip() for part in tree[:brace].split("::") if part.strip())
        inner = tree[brace + 1 : tree.rindex("}")]
        for part in split_commas(inner):
            yield from flatten(part, prefix + head)
        return
    name, _, alias = tree.partition(" as ")
    parts = prefix + tuple(part.strip() for part in name.split("::") if part.strip())
    if not parts:
        return
    if parts[-1] == "self":
        parts = parts[:-1]
    yield parts, (alias.strip() or parts[-1])


def split_commas(text):
    depth, part = 0, ""
    for char in text:
        depth += {"{": 1, "}": -1}.get(char, 0)
        if char == "," and depth == 0:
            yield part
            part = ""
        else:
            part += char
    if part.strip():
        yield part


def resolve(module, parts, seen=()):
    """The module in which the path's thing is defined, or None if it is of another crate."""
    if (module, parts) in seen or len(seen) > 40:
        return None
    seen = (*seen, (module, parts))
    head, rest = parts[0], parts[1:]
    if head == "crate":
        return walk(module.root(), rest, seen)
    if head == "self":
        return walk(module, rest, seen)
    if head == "super":
        return walk(module.parent, rest, seen) if module.parent else None
    return walk(module, parts, seen)


def walk(module, parts, seen):
    while parts and parts[0] == "super":
        module, parts = module.parent, parts[1:]
        if module is None:
            return None
    if not parts:
        return module
    head, rest = parts[0], parts[1:]
    if head in module.children:
        return walk(module.children[head], rest, seen)
    if head in module.items:
        return module
    if head in module.names and module.names[head] != parts:
        return resolve(module, module.names[head] + rest, seen)
    for glob in module.globs:
        found = resolve(module, glob, seen)
        if found is not None and found is not module:
            found = walk(found, parts, (*seen, (found, parts)))
            if found is not None:
                return found
    return None


def all_of(module):
    yield module
    for child in module.children.values():
        yield from all_of(child)


def uses(root):
    """{module: {module it uses: what for}}, both being modules of this crate."""
    modules = list(all_of(root))
    methods = extended(modules)
    edges = {module: {} for module in modules}
    for module in modules:
        for name, path in paths(module):
            target = resolve(module, path)
            if target is not None and target is not module:
                edges[module].setdefault(target, name)
        for method in set(re.findall(r"(?:\.|Self::)(\w+)\(", module.text)):
            home = methods.get(method)
            if home is not None and home is not module:
                edges[module].setdefault(home, f"{method}()")
    return edges


def paths(module):
    body = USE.sub("", module.text)
    words = set(re.findall(r"\b\w+\b", body))
    for alias, path in module.names.items():
        if alias in words or alias == "_":
            yield alias, path
    for path in set(PATH.findall(body)):
        parts = tuple(path.split("::"))
        if parts[0] in ("crate", "super", "self") or parts[0] in module.children:
            yield path, parts
    for glob in module.globs:
        target = resolve(module, glob)
        for name in words & target.items if target else ():
            yield name, (*glob, name)


def extended(modules):
    """Methods with a name of their own, by the module whose `impl` extends a type of another module."""
    homes = {}
    for module in modules:
        for match in IMPL.finditer(module.text):
            header = re.sub(r"<[^<>]*(?:<[^<>]*>[^<>]*)*>", "", match.group(0)[4:-1]).split(" where ")[0].strip()
            if " for " in match.group(0):
                header = None
            body = module.text[match.end() : closing(module.text, match.end())]
            for method in METHOD.findall(body):
                own = header is None or resolve(module, tuple(header.split("::"))) in (module, None)
                homes.setdefault(method, set()).add(None if own else module)
    return {name: next(iter(home)) for name, home in homes.items() if len(home) == 1 and None not in home and name not in COMMON}


def circles(edges):
    """Sets of modules each of which reaches every other (Tarjan), of two and more."""
    index, low, stack, on, found = {}, {}, [], set(), []

    def visit(start):
        work = [(start, iter(edges[start]))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on.add(start)
        while work:
            node, rest = work[-1]
            for next_ in rest:
                if next_ not in index:
                    index[next_] = low[next_] = len(index)
                    stack.append(next_)
                    on.add(next_)
                    work.append((next_, iter(edges[next_])))
                    break
                if next_ in on:
                    low[node] = min(low[node], index[next_])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    ring = []
                    while True:
                        ring.append(stack.pop())
                        on.discard(ring[-1])
                        if ring[-1] is node:
                            break
                    if len(ring) > 1:
                        found.append(ring)

    for node in edges:
        if node not in index:
            visit(node)
    return found


def main(arguments):
    """Prints each circle of each crate, with the uses inside it: `tools/modules.py [CRATE...]`."""
    root = pathlib.Path(__file__).resolve().parent.parent / "crates"
    for crate in arguments or sorted(entry.name for entry in root.iterdir()):
        edges = uses(load(root_of(root / crate / "src")))
        source = root / crate / "src"
        name = lambda module: str(module.path.relative_to(source))
        for ring in sorted(circles(edges), key=len, reverse=True):
            print(f"{crate}: circle of {len(ring)}")
            for module in sorted(ring, key=name):
                inside = [f"{name(to)} ({why})" for to, why in edges[module].items() if to in ring]
                print(f"    {name(module)} -> {', '.join(sorted(inside))}")


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
