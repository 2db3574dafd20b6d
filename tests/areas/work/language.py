"""transformers: BERT, T5, greedy, beam and sampled generation with GPT-2, save and load, tokenizers; diffusers: a UNet with DDIM, a VAE"""

import tempfile

from common import FOLDER, randn, seeded

import torch
from diffusers import AutoencoderKL, DDIMScheduler, UNet2DModel
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

TEXT = ["the bytes are shared", "the state is not shared", "each copy has its own state"]


def tokenizer():
    raw = Tokenizer(models.BPE(unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=60, special_tokens=["[UNK]", "[PAD]"], show_progress=False))
    return PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="[UNK]", pad_token="[PAD]")


def bert(words):
    config = BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
    model = seeded(BertModel(config), 1).eval()
    with torch.inference_mode():
        return model(**words).last_hidden_state.clone()


def gpt():
    config = GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=0, eos_token_id=63)
    return seeded(GPT2LMHeadModel(config), 2).eval()


def generated(model, **options):
    torch.manual_seed(3)
    start = torch.tensor([[5, 6, 7]])
    return model.generate(start, attention_mask=torch.ones_like(start), max_new_tokens=12, pad_token_id=0, **options)


def t5():
    config = T5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0)
    model = seeded(T5ForConditionalGeneration(config), 4).eval()
    output = model(input_ids=torch.tensor([[5, 6, 7, 1]]), labels=torch.tensor([[8, 9, 1]]))
    output.loss.backward()
    return [output.loss.detach(), output.logits.detach(), model.shared.weight.grad]


def saved(model):
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        model.save_pretrained(folder)
        loaded = GPT2LMHeadModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        return loaded(torch.tensor([[1, 2, 3]])).logits.clone()


def diffusion():
    unet = UNet2DModel(sample_size=8, in_channels=3, out_channels=3, layers_per_block=1, norm_num_groups=8,
                       block_out_channels=(16, 32), down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                       up_block_types=("AttnUpBlock2D", "UpBlock2D"))
    unet = seeded(unet, 5).eval()
    scheduler = DDIMScheduler(num_train_timesteps=50)
    scheduler.set_timesteps(4)
    image = randn(1, 3, 8, 8, seed=6)
    with torch.no_grad():
        for step in scheduler.timesteps:
            image = scheduler.step(unet(image, step).sample, step, image).prev_sample
    return image


def autoencoder():
    model = AutoencoderKL(block_out_channels=(8, 16), norm_num_groups=4, latent_channels=2,
                          down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2)
    model = seeded(model, 7).eval()
    with torch.no_grad():
        hidden = model.encode(randn(1, 3, 16, 16, seed=8)).latent_dist.sample(torch.Generator().manual_seed(9))
        return [hidden, model.decode(hidden).sample]


def work(tell):
    tokens = tokenizer()
    words = tokens(TEXT, padding=True, return_tensors="pt")
    tell("tokenizer", [words["input_ids"], tokens.batch_decode(words["input_ids"])])
    tell("BERT", bert(words))
    model = gpt()
    tell("generate greedy", generated(model, do_sample=False))
    tell("generate beams", generated(model, do_sample=False, num_beams=3))
    tell("generate samples", generated(model, do_sample=True, top_k=20, temperature=0.9))
    tell("T5 gradients", t5())
    tell("from_pretrained", saved(model))
    tell("diffusers DDIM", diffusion())
    tell("diffusers VAE", autoencoder())
