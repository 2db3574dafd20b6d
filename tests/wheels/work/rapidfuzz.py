"""distances, ratios, the best of many, a matrix by its threads"""

from rapidfuzz import distance, fuzz, process, utils

WORDS = [f"{a}{b}{c}" for a in ("new ", "old ", "") for b in ("york", "yrok", "jersey", "größe") for c in (" city", "", " mets")]


def work(tell):
    tell("ratios", [[fuzz.ratio(a, WORDS[0]), fuzz.token_set_ratio(a, WORDS[5]), fuzz.WRatio(a, WORDS[9])] for a in WORDS])
    tell("best", [list(found) for found in process.extract("new yrk cty", WORDS, limit=7, processor=utils.default_process)])
    tell("matrix", process.cdist(WORDS, WORDS, workers=3))
    tell("levenshtein", [distance.Levenshtein.distance(a, WORDS[3]) for a in WORDS])
    tell("operations", [list(one) for one in distance.Levenshtein.editops("größe", "groß e").as_list()])
    tell("jaro", distance.JaroWinkler.similarity("martha", "marhta"))
    try:
        fuzz.ratio(3, "a")
    except TypeError as error:
        tell("error", type(error).__name__)
