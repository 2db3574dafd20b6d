"""datasets with map, filter and torch's format, transformers' Trainer, peft's LoRA merged and unmerged, accelerate"""

import tempfile

from common import FOLDER, parameters, perceptron, randn, seeded

import torch
from accelerate import Accelerator
from datasets import Dataset
from datasets.utils.logging import disable_progress_bar
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

disable_progress_bar()


def table():
    rows = Dataset.from_dict({"number": list(range(16)), "text": [f"text {number}" for number in range(16)]})
    words = rows.map(lambda row: {"input_ids": [row["number"], len(row["text"]), 3, 4]}, remove_columns=["text"])
    words = words.map(lambda row: {"labels": row["input_ids"]})
    return words.filter(lambda row: row["number"] % 4 != 3)


def gpt():
    config = GPT2Config(vocab_size=32, n_embd=16, n_layer=1, n_head=2, n_positions=16, bos_token_id=0, eos_token_id=1,
                        resid_pdrop=0.1, attn_pdrop=0.1)
    return seeded(GPT2LMHeadModel(config), 1)


def trainer(rows):
    model = gpt()
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        arguments = TrainingArguments(folder, max_steps=4, per_device_train_batch_size=4, seed=2, use_cpu=True, report_to=[],
                                      disable_tqdm=True, logging_strategy="no", save_strategy="no", learning_rate=0.01)
        result = Trainer(model=model, args=arguments, train_dataset=rows.remove_columns(["number"])).train()
    return [result.training_loss, result.global_step, parameters(model)[:2]]


def lora():
    torch.manual_seed(3)
    model = get_peft_model(gpt(), LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM"))
    optimizer = torch.optim.AdamW([parameter for parameter in model.parameters() if parameter.requires_grad], lr=0.01)
    words = torch.tensor([[2, 3, 4, 5]])
    for _ in range(3):
        optimizer.zero_grad()
        model(input_ids=words, labels=words).loss.backward()
        optimizer.step()
    state = get_peft_model_state_dict(model)
    merged = model.eval().merge_and_unload()
    with torch.no_grad():
        return [[value.detach() for value in state.values()], merged(words).logits]


def accelerated():
    accelerator = Accelerator(cpu=True)
    model = perceptron(4).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = torch.utils.data.TensorDataset(randn(8, 8, seed=5), torch.arange(8) % 3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(rows, batch_size=4))
    for inputs, labels in loader:
        with accelerator.accumulate(model):
            optimizer.zero_grad()
            accelerator.backward(torch.nn.functional.cross_entropy(model(inputs), labels))
            optimizer.step()
    accelerator.free_memory()
    return parameters(model)


def work(tell):
    rows = table()
    tell("datasets", [rows["number"][:], rows.to_dict()])
    tell("datasets in torch's format", [list(batch.values()) for batch in rows.with_format("torch").iter(4)])
    tell("Trainer", trainer(rows))
    tell("peft LoRA", lora())
    tell("accelerate", accelerated())
