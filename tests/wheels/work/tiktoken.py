"""an encoding of one's own: encode, decode, special tokens, threads, errors"""

import tiktoken


def encoding():
    ranks = {bytes([i]): i for i in range(256)}
    for pair in (b"th", b"he", b"in", b"er", b"the", b"ing", b" the"):
        ranks[pair] = len(ranks)
    return tiktoken.Encoding(
        "work", pat_str=r"""\p{L}+| ?\p{L}+|\p{N}{1,3}|[^\s\p{L}\p{N}]+|\s+""", mergeable_ranks=ranks, special_tokens={"<|end|>": 1000}
    )


def work(tell):
    coder = encoding()
    text = "the thing in the ether, größe 12345 日本 " * 30
    tokens = coder.encode(text)
    tell("tokens", tokens)
    tell("decoded", coder.decode(tokens) == text)
    tell("batch", coder.encode_batch([text[i:] for i in range(20)], num_threads=3))
    tell("special", coder.encode("a<|end|>b", allowed_special="all"))
    tell("bytes", coder.decode_tokens_bytes(tokens[:20]))
    try:
        coder.encode("a<|end|>b")
    except ValueError as error:
        tell("error", str(error)[:60])
    try:
        coder.decode([5000])
    except KeyError as error:
        tell("unknown", str(error))
