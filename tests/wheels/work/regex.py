"""properties, fuzzy matches, sets, recursion, threads that release the GIL"""

import threading

import regex

TEXT = "The quick brown Füchse jumped över 12.5 lazy dogs, Ελληνικά, 日本語 test (a(b)c(d(e))) " * 40


def work(tell):
    tell("properties", regex.findall(r"\p{Script=Greek}+|\p{Han}+|\p{Lu}\p{Ll}+", TEXT)[:40])
    tell("fuzzy", [match.fuzzy_counts for match in regex.finditer(r"(?b)(?:quikc){e<=2}", TEXT)][:9])
    tell("recursion", regex.findall(r"\((?:[^()]|(?R))*\)", TEXT)[:9])
    tell("sets", regex.findall(r"(?V1)[\w--[aeiou\d]]+", TEXT)[:40])
    tell("captures", regex.match(r"(?:(\w+) )+", TEXT).captures(1))
    tell("lists", regex.sub(r"\L<names>", "X", TEXT, names=["quick", "dogs"])[:99])
    results = [None] * 4

    def search(index):
        results[index] = len(regex.findall(r"(\w)\w*\1", TEXT * 3, concurrent=True))

    threads = [threading.Thread(target=search, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tell("threads", results)
    try:
        regex.compile(r"(?<n>a)(?&m)")
    except regex.error as error:
        tell("error", str(error))
