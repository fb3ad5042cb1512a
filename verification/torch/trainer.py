"""Hugging Face's Trainer on scikit-learn's digits, as its users write it: prints the training loss.

    fakegpu run --ranks-per-node 2 -- python trainer.py            on CUDA, over nccl
    fakegpu run --ranks-per-node 2 -- python trainer.py --cpu      on the CPU, over gloo: the same number
    fakegpu exec --ranks-per-node 2 -- accelerate launch --num_processes 2 --multi_gpu trainer.py

Needs `pip install transformers accelerate scikit-learn` beside the torch of `fakegpu setup torch`.
"""

import sys
import tempfile

import torch
from sklearn.datasets import load_digits
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

CPU = "--cpu" in sys.argv

digits = load_digits()
rows = torch.tensor(digits.data, dtype=torch.long)
labels = torch.tensor(digits.target)


class Digits(torch.utils.data.Dataset):
    def __len__(self):
        return len(rows)

    def __getitem__(self, at):
        return {"input_ids": rows[at], "labels": labels[at]}


torch.manual_seed(0)
config = BertConfig(
    vocab_size=20,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=64,
    num_labels=10,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(),
    per_device_train_batch_size=16,
    num_train_epochs=1,
    learning_rate=1e-3,
    report_to=[],
    save_strategy="no",
    use_cpu=CPU,
    ddp_backend="gloo" if CPU else "nccl",
    disable_tqdm=True,
    data_seed=1,
    seed=1,
)
trainer = Trainer(model=BertForSequenceClassification(config), args=arguments, train_dataset=Digits())
print("training loss", round(trainer.train().training_loss, 5), "on", arguments.device)
