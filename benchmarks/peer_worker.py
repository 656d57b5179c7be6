#!/usr/bin/env python3
"""One peer of compare_peers.py, in a process of its own.

Reads lines of JSON: "requests" with "new_tokens" of each, and "batch", how many to run at a time; or "judge", a method
of HuggingFace's, with "requests" and "tokens"; or "probe". Answers each with a line. Of models of sound (--frames) a
request is the number of a window.
"""
import argparse, json, os, pathlib, resource, sys, time


def decoder_prompt(config):
    """What decoding starts with, as Tandem does by default: BART's BOS is not generated; T5Gemma starts with BOS alone."""
    start = getattr(config, "decoder_start_token_id", None)
    start = [config.bos_token_id if start is None else start]
    return start + [config.bos_token_id] if config.model_type == "bart" else start


class HuggingFace:
    def __init__(self, args, dtype="float32"):
        import torch, transformers

        torch.set_num_threads(args.threads)
        torch.set_grad_enabled(False)
        self.torch, self.beams = torch, args.beams
        self.version = f"transformers {transformers.__version__}, torch {torch.__version__}"
        self.model = transformers.AutoModelForSeq2SeqLM.from_pretrained(args.model, dtype=getattr(torch, dtype)).eval()

    def generate(self, requests, new_tokens):
        """Of unequal lengths, all get as many tokens as the longest and are cut."""
        width, longest = max(map(len, requests)), max(new_tokens)
        config = self.model.config
        ids = self.torch.tensor([r + [config.pad_token_id] * (width - len(r)) for r in requests])
        mask = self.torch.tensor([[1] * len(r) + [0] * (width - len(r)) for r in requests])
        prompt = decoder_prompt(config)
        start = self.torch.tensor([prompt]).repeat(len(requests), 1)
        out = self.model.generate(
            input_ids=ids, attention_mask=mask, decoder_input_ids=start, num_beams=self.beams, do_sample=False,
            min_new_tokens=longest, max_new_tokens=longest, early_stopping=False, length_penalty=1.0)
        return [row[len(prompt):len(prompt) + n] for row, n in zip(out.tolist(), new_tokens)]

    def logits(self, source, target):
        """Of every generated token."""
        start = decoder_prompt(self.model.config)
        return self.model(input_ids=self.torch.tensor([source]),
                          decoder_input_ids=self.torch.tensor([start + target[:-1]])).logits[0, len(start) - 1:]

    def leads(self, requests, tokens):
        """How far the best logit is ahead of the second, for every generated token (EOS left out)."""
        result = []
        for source, target in zip(requests, tokens):
            logits = self.logits(source, target)
            logits[:, self.model.config.eos_token_id] = float("-inf")
            top = logits.topk(2).values
            result.append((top[:, 0] - top[:, 1]).tolist())
        return result

    def scores(self, requests, tokens):
        """Sums of log-probabilities, which is what beam search maximises."""
        return [self.logits(source, target).log_softmax(-1).gather(1, self.torch.tensor(target)[:, None]).sum().item()
                for source, target in zip(requests, tokens)]


class Windows:
    """Of frames, in a file of float32."""
    def __init__(self, args):
        import numpy

        self.prompt = [int(i) for i in args.decoder_prompt.split(",")]
        self.all = numpy.fromfile(args.frames, dtype=numpy.float32).reshape(-1, args.num_frames, args.frame_width)

    def features(self, requests):  # [windows, bins, frames]
        import numpy

        return numpy.ascontiguousarray(self.all[[r[0] for r in requests]].transpose(0, 2, 1))


class HuggingFaceSpeech(HuggingFace):
    def __init__(self, args, dtype="float32"):
        import torch, transformers

        torch.set_num_threads(args.threads)
        torch.set_grad_enabled(False)
        self.torch, self.windows = torch, Windows(args)
        self.version = f"transformers {transformers.__version__}, torch {torch.__version__}"
        self.model = transformers.WhisperForConditionalGeneration.from_pretrained(args.model, dtype=getattr(torch, dtype)).eval()

    def features(self, requests):
        return self.torch.from_numpy(self.windows.features(requests)).to(self.model.dtype)

    def generate(self, requests, new_tokens):
        """The plain loop: Whisper's own generate() would divide sound into windows."""
        from transformers import GenerationMixin

        prompt = self.torch.tensor([self.windows.prompt]).repeat(len(requests), 1)
        out = GenerationMixin.generate(
            self.model, input_features=self.features(requests), decoder_input_ids=prompt, do_sample=False, num_beams=1,
            min_new_tokens=new_tokens[0], max_new_tokens=new_tokens[0])
        return out[:, -new_tokens[0]:].tolist()

    def logits(self, source, target):
        start = self.windows.prompt
        return self.model(input_features=self.features([source]),
                          decoder_input_ids=self.torch.tensor([start + target[:-1]])).logits[0, len(start) - 1:]


class FasterWhisper:
    def __init__(self, args, compute_type="float32"):
        import ctranslate2, faster_whisper, transformers

        self.version = f"faster-whisper {faster_whisper.__version__}, ctranslate2 {ctranslate2.__version__}"
        folder = args.cache / "ctranslate2"
        if not (folder / "model.bin").exists():
            ctranslate2.converters.TransformersConverter(
                str(args.model), copy_files=["tokenizer.json", "preprocessor_config.json"]).convert(str(folder), force=True)
        self.model = faster_whisper.WhisperModel(
            str(folder), device="cpu", compute_type=compute_type, cpu_threads=args.threads, num_workers=1).model
        self.windows, self.view = Windows(args), ctranslate2.StorageView
        self.end = transformers.AutoConfig.from_pretrained(args.model).eos_token_id

    def generate(self, requests, new_tokens):
        """As its batched pipeline does. Of max_length a half may be new; without the end token all have it."""
        results = self.model.generate(
            self.view.from_array(self.windows.features(requests)), [self.windows.prompt] * len(requests), beam_size=1,
            max_length=2 * new_tokens[0], suppress_blank=False, suppress_tokens=[self.end])
        return [r.sequences_ids[0] for r in results]


class OpenVino(HuggingFace):
    """`precision`: what it computes in; with `int8_weights` they are compressed (weight only, as its users do)."""

    def __init__(self, args, precision="f32", int8_weights=False):
        import importlib.metadata, openvino, torch
        from optimum.intel import OVModelForSeq2SeqLM

        torch.set_num_threads(1)
        self.torch, self.beams = torch, args.beams
        self.version = f"openvino {openvino.__version__.split('-')[0]}, optimum-intel {importlib.metadata.version('optimum-intel')}"
        # Said in any case: on a CPU with bf16 instructions the default would compute in bf16.
        config = {"INFERENCE_NUM_THREADS": str(args.threads), "INFERENCE_PRECISION_HINT": precision,
                  "PERFORMANCE_HINT": "LATENCY"}
        folder = args.cache / ("openvino-int8" if int8_weights else "openvino")
        if not (folder / "config.json").exists():
            OVModelForSeq2SeqLM.from_pretrained(
                args.model, export=True, compile=False, load_in_8bit=int8_weights).save_pretrained(folder)
        self.model = OVModelForSeq2SeqLM.from_pretrained(folder, ov_config=config)


class OnnxRuntime(HuggingFace):
    def __init__(self, args):
        import onnxruntime, torch
        from optimum.onnxruntime import ORTModelForSeq2SeqLM

        torch.set_num_threads(1)
        self.torch, self.beams, self.version = torch, args.beams, f"onnxruntime {onnxruntime.__version__}"
        folder, options = args.cache / "onnx", onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = args.threads, 1
        if not (folder / "config.json").exists():
            ORTModelForSeq2SeqLM.from_pretrained(args.model, export=True).save_pretrained(folder)
        self.model = ORTModelForSeq2SeqLM.from_pretrained(folder, session_options=options)


class CTranslate2:
    def __init__(self, args, compute_type="float32"):
        import ctranslate2, transformers

        self.version, self.beams = f"ctranslate2 {ctranslate2.__version__}", args.beams
        folder = args.cache / "ctranslate2"
        if not (folder / "model.bin").exists():
            ctranslate2.converters.TransformersConverter(str(args.model)).convert(str(folder), force=True)
        self.translator = ctranslate2.Translator(
            str(folder), device="cpu", compute_type=compute_type, inter_threads=1, intra_threads=args.threads)
        tokenizer = transformers.AutoTokenizer.from_pretrained(args.model)
        self.tokens = {i: token for token, i in tokenizer.get_vocab().items()}
        self.ids = {token: i for i, token in self.tokens.items()}
        self.prefix = decoder_prompt(transformers.AutoConfig.from_pretrained(args.model))[1:]  # it knows the first

    def generate(self, requests, new_tokens):
        """Greedily each its own number of tokens, with beams all the same."""
        def is_done(step):
            return step.step + 1 - len(self.prefix) >= new_tokens[step.batch_id]  # the prefix counts

        unequal = len(set(new_tokens)) > 1
        longest = max(new_tokens) + len(self.prefix)  # which counts as decoded and is part of the hypothesis
        prefix = [self.tokens[i] for i in self.prefix]
        results = self.translator.translate_batch(
            [[self.tokens[i] for i in r] for r in requests], target_prefix=[prefix] * len(requests) if prefix else None,
            beam_size=self.beams, min_decoding_length=longest, max_decoding_length=longest,
            **({"callback": is_done} if unequal else {}))
        return [[self.ids[token] for token in r.hypotheses[0][len(prefix):]] for r in results]


MAKERS = {
    "hf": HuggingFace,
    "hf-bf16": lambda args: HuggingFace(args, "bfloat16"),
    "openvino": OpenVino,
    "openvino-bf16": lambda args: OpenVino(args, "bf16"),
    "openvino-int8": lambda args: OpenVino(args, "bf16", int8_weights=True),
    "onnx": OnnxRuntime,
    "ct2": CTranslate2,
    "ct2-int8": lambda args: CTranslate2(args, "int8"),
    "ct2-bf16": lambda args: CTranslate2(args, "bfloat16"),
    "faster-whisper": FasterWhisper,
    "faster-whisper-int8": lambda args: FasterWhisper(args, "int8"),
}
SPEECH_MAKERS = {"hf": HuggingFaceSpeech, "hf-bf16": lambda args: HuggingFaceSpeech(args, "bfloat16")}


def probe(threads):
    """The best rate of products of matrices in bf16, of a twentieth of a second or so; of small ones where they are slow."""
    import torch

    torch.set_num_threads(threads)
    best = product_rate(torch.ones(128, 128, dtype=torch.bfloat16), 3)
    return best if best < 10 else product_rate(torch.ones(1024, 1024, dtype=torch.bfloat16), 40)


def product_rate(a, count):
    """Of the fastest of `count` squares, in GFLOP/s."""
    seconds = []
    for _ in range(count):
        start = time.perf_counter()
        a @ a
        seconds.append(time.perf_counter() - start)
    return 2e-9 * len(a)**3 / min(seconds)


def generate(engine, requests, new_tokens, batch):
    """In batches of requests sorted by length; each one's tokens, and the seconds after which it is there."""
    order = sorted(range(len(requests)), key=lambda i: len(requests[i]))
    tokens, latencies = [[] for _ in requests], [0.0] * len(requests)
    start, used = time.perf_counter(), time.process_time()
    for first in range(0, len(order), batch):
        now = order[first:first + batch]
        done = engine.generate([requests[i] for i in now], [new_tokens[i] for i in now])
        for i, ids in zip(now, done):
            tokens[i], latencies[i] = ids, time.perf_counter() - start
    return {"token_ids": tokens, "latencies": latencies, "seconds": max(latencies),
            "cpu_seconds": time.process_time() - used}


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("engine", choices=MAKERS)
    p.add_argument("--model", type=pathlib.Path, required=True)
    p.add_argument("--cache", type=pathlib.Path, required=True, help="converted models")
    p.add_argument("--threads", type=int, required=True)
    p.add_argument("--beams", type=int, required=True)
    p.add_argument("--frames", type=pathlib.Path)
    p.add_argument("--num-frames", type=int)
    p.add_argument("--frame-width", type=int)
    p.add_argument("--decoder-prompt", default="")
    args = p.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries that print must not disturb the answers
    engine = (SPEECH_MAKERS if args.frames and args.engine in SPEECH_MAKERS else MAKERS)[args.engine](args)
    print(json.dumps({"version": engine.version}), file=answers, flush=True)
    for line in sys.stdin:
        work = json.loads(line)
        if "probe" in work:
            answer = {"gflops": probe(args.threads)}
        elif "judge" in work:
            answer = {"judged": getattr(engine, work["judge"])(work["requests"], work["tokens"])}
        else:
            answer = generate(engine, work["requests"], work["new_tokens"], work["batch"])
        answer["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
