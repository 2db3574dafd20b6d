"""a blank pipeline: tokens, rules, a trained classifier, bytes"""

import spacy
from spacy.matcher import Matcher, PhraseMatcher
from spacy.tokens import DocBin
from spacy.training import Example
from spacy.util import fix_random_seed

TEXT = "Dr. Müller doesn't live in New York City (U.S.A.) anymore; she paid $1,299.50 on 3/4/2024."


def work(tell):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    document = nlp(TEXT * 3)
    tell("tokens", [[token.text, token.shape_, token.like_num, token.idx] for token in document])
    tell("sentences", [sentence.text for sentence in document.sents])
    matcher = Matcher(nlp.vocab)
    matcher.add("MONEY", [[{"ORTH": "$"}, {"LIKE_NUM": True}]])
    tell("matches", [[start, end] for _, start, end in matcher(document)])
    phrases = PhraseMatcher(nlp.vocab, attr="LOWER")
    phrases.add("CITY", [nlp.make_doc("new york city")])
    tell("phrases", [[start, end] for _, start, end in phrases(document)])
    tell("bytes", len(list(DocBin(docs=[document]).get_docs(nlp.vocab))))
    fix_random_seed(3)
    trained = spacy.blank("en")
    trained.add_pipe("textcat").add_label("GOOD")
    trained.get_pipe("textcat").add_label("BAD")
    examples = [
        Example.from_dict(trained.make_doc(text), {"cats": {"GOOD": good, "BAD": 1 - good}})
        for text, good in (("great film", 1.0), ("bad film", 0.0), ("really great", 1.0), ("so bad", 0.0))
    ]
    optimizer = trained.initialize(lambda: examples)
    for _ in range(8):
        trained.update(examples, sgd=optimizer)
    tell("category", max((cats := trained("a great one").cats), key=cats.get))
