"""a model trained, pieces, identifiers, the best segmentations"""

import io

import sentencepiece

TEXT = ["the quick brown fox jumps over the lazy dog", "größe und länge der wörter", "pieces of sentences in pieces"] * 80


def work(tell):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=model, vocab_size=90, hard_vocab_limit=False, model_type="unigram", minloglevel=2, num_threads=2
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    tell("pieces", processor.encode(TEXT[:3], out_type=str))
    ids = processor.encode("quick pieces of größe")
    tell("ids", [ids, processor.decode(ids)])
    tell("vocabulary", [processor.id_to_piece(i) for i in range(processor.get_piece_size())])
    tell("best", processor.nbest_encode_as_pieces("quick brown", 4))
    try:
        processor.load("/no/such/model")
    except RuntimeError as error:
        tell("error", type(error).__name__)
