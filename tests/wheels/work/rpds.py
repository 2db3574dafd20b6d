"""persistent maps, lists, sets"""

from rpds import HashTrieMap, HashTrieSet, List, Queue


def work(tell):
    base = HashTrieMap({f"k{i}": i for i in range(1000)})
    changed = base.insert("new", -1).remove("k5")
    tell("map", [len(base), len(changed), base["k5"], sorted(changed.items())[:20], "k5" in changed])
    chain = List()
    for i in range(200):
        chain = chain.push_front(i)
    tell("list", [list(chain)[:9], list(chain.rest)[:3]])
    tell("set", sorted(HashTrieSet("abracadabra").union(HashTrieSet("xyz"))))
    tell("queue", list(Queue([1, 2]).enqueue(3)))
    try:
        base.remove("missing")
    except KeyError as error:
        tell("error", str(error))
