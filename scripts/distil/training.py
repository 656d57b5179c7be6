"""The draft's training, on what the teacher says."""
import json, math, pathlib, random, time

import torch
from torch.nn import functional
from transformers import AutoConfig, AutoModelForSeq2SeqLM
from transformers.modeling_outputs import BaseModelOutput

from distil.data import Progress, batches_of, tokens_per_step
from distil.layers import chosen_layers, layer_of, layers_key

DRAFT_LENGTHS = (2, 4, 8)  # for which tokens a step are printed


def load_models(args):
    """The teacher, and the draft with some of its layers; the numbers of these."""
    file = json.loads((pathlib.Path(args.teacher) / "config.json").read_text(encoding="utf-8"))
    teacher = AutoModelForSeq2SeqLM.from_pretrained(args.teacher, dtype=torch.float32).eval()
    config = AutoConfig.from_pretrained(args.teacher)
    key = layers_key(file)
    layers = chosen_layers(args.layers, getattr(config, key))
    setattr(config, key, len(layers))
    # "eager" is faster than "sdpa" here, where targets are short.
    draft = AutoModelForSeq2SeqLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    have, state = teacher.state_dict(), {}
    for name in draft.state_dict():
        source = name
        if layer_of(name):
            before, number, behind = layer_of(name)
            source = f"{before}{layers[number]}.{behind}"
            if source not in have:  # T5's first layer alone has the distances
                source = f"{before}{0}.{behind}"
        state[name] = have[source]
    draft.load_state_dict(state)
    draft.tie_weights()
    frozen = {id(p) for p in draft.get_encoder().parameters()} | {id(p) for p in draft.get_input_embeddings().parameters()}
    for parameter in draft.parameters():
        if id(parameter) in frozen:
            parameter.requires_grad_(False)
    teacher.requires_grad_(False)
    if args.bf16:
        teacher.to(torch.bfloat16)
    return teacher, draft, layers


def load_saved(folder):
    """The draft as whoever serves it reads it."""
    return AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()


class Data:
    """Batches as tensors, with what the teacher makes of them: computed once, kept while there is memory for it."""

    def __init__(self, args, teacher, rows):
        self.args, self.teacher, self.rows, self.room = args, teacher, rows, args.cache_gb * 2**30
        self.known = {}  # of a row: the encoder's states, and the teacher's likeliest tokens at each position

    def pad(self, batch, sources):
        pad = self.teacher.config.pad_token_id or 0
        width = max(len(row) for row in sources)
        ids = torch.full((len(batch), width), pad)
        mask = torch.zeros((len(batch), width), dtype=torch.long)
        for i, row in enumerate(sources):
            ids[i, :len(row)] = torch.tensor(row)
            mask[i, :len(row)] = 1
        return ids, mask

    def batch(self, indices):
        """decoder ids, encoder states, mask, (rows, positions) of what is predicted, tokens, top ids, top likelihoods."""
        rows = [self.rows[i] for i in indices]
        sources, mask = self.pad(indices, [row["source"] for row in rows])
        ids, _ = self.pad(indices, [row["prompt"] + row["output"][:-1] for row in rows])
        at = [(i, len(row["prompt"]) - 1 + p) for i, row in enumerate(rows) for p in range(len(row["output"]))]
        at = tuple(torch.tensor(at).T)
        tokens = torch.tensor([token for row in rows for token in row["output"]])
        if all(i in self.known for i in indices):
            states = torch.nn.utils.rnn.pad_sequence([self.known[i][0] for i in indices], batch_first=True)
            return ids, states.float(), mask, at, tokens, *(torch.cat([self.known[i][k] for i in indices]) for k in (1, 2))
        with torch.no_grad():
            states = self.teacher.get_encoder()(input_ids=sources, attention_mask=mask).last_hidden_state
            top = logits_of(self.teacher, ids, states, mask)[at].float().softmax(-1).topk(self.args.top)
        states = states.to(torch.bfloat16)
        self.keep(indices, states, top)
        return ids, states.float(), mask, at, tokens, top.indices, top.values

    def keep(self, indices, states, top):
        ends = 0
        for i, state in zip(indices, states):
            row = self.rows[i]
            begun, ends = ends, ends + len(row["output"])
            entry = (state[:len(row["source"])].clone(), top.indices[begun:ends].clone(), top.values[begun:ends].clone())
            size = sum(t.numel() * t.element_size() for t in entry)
            if i not in self.known and size <= self.room:
                self.room -= size
                self.known[i] = entry


def logits_of(model, ids, states, mask):
    return model(encoder_outputs=BaseModelOutput(states), attention_mask=mask, decoder_input_ids=ids, use_cache=False).logits


def measure(args, data, draft, indices, what):
    """Prints how often the draft says what the teacher says."""
    hits = []
    for batch in batches_of(data.rows, indices, args.batch):
        with torch.no_grad():
            ids, states, mask, at, tokens, _, _ = data.batch(batch)
            right = (logits_of(draft, ids, states, mask)[at].argmax(-1) == tokens).tolist()
        for i in batch:
            hits.append(right[:len(data.rows[i]["output"])])
            right = right[len(hits[-1]):]
    share = sum(map(sum, hits)) / max(1, sum(map(len, hits)))
    steps = ", ".join(f"{tokens_per_step(hits, k):.2f} with {k}" for k in DRAFT_LENGTHS)
    print(f"{what}: {share:.1%} of {sum(map(len, hits))} tokens as the teacher's; tokens a step: {steps} drafts", flush=True)
    return share


def train(args, data, draft, indices):
    parameters = [p for p in draft.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=args.rate, betas=(0.9, 0.98), weight_decay=0.01)
    order, begun, done = random.Random(args.seed), time.monotonic(), 0
    epochs = [batches_of(data.rows, indices, args.batch, order) for _ in range(args.epochs)]
    total = sum(map(len, epochs))
    rising = max(1, min(200, total // 20))  # steps until the rate is at its highest
    progress, mean = Progress("training"), None
    for batches in epochs:
        order.shuffle(batches)
        for batch in batches:
            spent = (time.monotonic() - begun) / (60 * args.minutes) if args.minutes else 0
            share = max(done / total, spent)
            if share >= 1:
                break
            rate = args.rate * min(1, (done + 1) / rising, 0.5 + 0.5 * math.cos(math.pi * share))
            for group in optimizer.param_groups:
                group["lr"] = rate
            ids, states, mask, at, tokens, top, likely = data.batch(batch)
            logs = logits_of(draft, ids, states, mask)[at].float().log_softmax(-1)
            hard = functional.nll_loss(logs, tokens)
            soft = -(likely * logs.gather(1, top)).sum(-1).mean()
            loss = args.hard * hard + (1 - args.hard) * soft
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            done += 1
            mean = loss.item() if mean is None else 0.98 * mean + 0.02 * loss.item()
            progress.show(share, f"step {done} of {total}, loss {mean:.3f}")
    progress.show(1, f"{done} steps" + (f", loss {mean:.3f}" if done else ""))
    progress.end()
