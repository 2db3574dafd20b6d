"""training of BPE and WordPiece, encoding of batches on its threads, a decoder, offsets"""

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXT = ["the quick brown fox jumps over the lazy dog", "größe und länge", "tokens of tokenizers, tokenized"] * 60


def work(tell):
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=300, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]", [("[CLS]", 1), ("[SEP]", 2)])
    tell("vocabulary", sorted(tokenizer.get_vocab().items()))
    batch = tokenizer.encode_batch(TEXT * 5)
    tell("ids", [encoding.ids for encoding in batch[:6]])
    tell("offsets", [encoding.offsets for encoding in batch[:3]])
    tell("decoded", tokenizer.decode_batch([encoding.ids for encoding in batch[:9]]))
    again = Tokenizer.from_str(tokenizer.to_str())
    tell("again", again.encode("a quick fox", "of tokens").tokens)
    pieces = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    pieces.pre_tokenizer = pre_tokenizers.Whitespace()
    pieces.train_from_iterator(TEXT, trainers.WordPieceTrainer(vocab_size=90, special_tokens=["[UNK]"], show_progress=False))
    tell("size", pieces.get_vocab_size())
    try:
        Tokenizer.from_str("{}")
    except Exception as error:
        tell("error", str(error))
