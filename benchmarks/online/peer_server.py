#!/usr/bin/env python3
"""A peer behind a simple HTTP server with dynamic batching, as one would write it: POST /v1/completions with token ids,
answered by server-sent events.

A batch is begun as soon as the engine has room: --max-batch requests, or what has come within --max-wait seconds of
the first. Tokens are sent as they are generated, and an answer ends with its own last token, not with its batch.
CTranslate2 drops what is done out of a running batch; HuggingFace goes on to the longest.

Before it listens, CTranslate2 is measured with one batch on all threads and with a batch for each thread; the faster
way is used. Prints a line of JSON: port, version, setting.
"""
import argparse, asyncio, concurrent.futures, json, os, pathlib, sys, time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import peer_worker  # noqa: E402


class CTranslate2(peer_worker.CTranslate2):
    """parallel batches at a time, each on threads / parallel threads."""

    def __init__(self, args, compute_type, parallel):
        import ctranslate2

        super().__init__(args, compute_type)
        self.parallel, threads = parallel, max(1, args.threads // parallel)
        self.setting = f"inter_threads={parallel}, intra_threads={threads}, {compute_type}"
        if parallel > 1:
            self.translator = ctranslate2.Translator(str(args.cache / "ctranslate2"), device="cpu",
                                                     compute_type=compute_type, inter_threads=parallel,
                                                     intra_threads=threads)

    def run(self, requests, new_tokens, emit):
        """emit(i, token, last) for each token of request i, in order."""
        def on_step(step):
            if step.step == 0:  # the prefix
                return False
            last = step.step >= new_tokens[step.batch_id]
            emit(step.batch_id, step.token_id, last)
            return last

        longest = max(new_tokens) + 1  # the prefix counts
        self.translator.translate_batch(
            [[self.tokens[i] for i in r] for r in requests], target_prefix=[[self.tokens[r[0]]] for r in requests],
            beam_size=1, min_decoding_length=longest, max_decoding_length=longest, callback=on_step)


class HuggingFace(peer_worker.HuggingFace):
    def __init__(self, args, dtype="float32"):
        super().__init__(args, dtype)
        self.parallel, self.setting = 1, f"{args.threads} threads, {dtype}"

    def run(self, requests, new_tokens, emit):
        width, config, torch = max(map(len, requests)), self.model.config, self.torch
        ids = torch.tensor([r + [config.pad_token_id] * (width - len(r)) for r in requests])
        mask = torch.tensor([[1] * len(r) + [0] * (width - len(r)) for r in requests])
        start = torch.tensor([[config.decoder_start_token_id, config.bos_token_id]]).repeat(len(requests), 1)

        class Streamer:
            step = 0

            def put(self, value):
                if value.dim() > 1:  # the decoder prompts
                    return
                self.step += 1
                for i, token in enumerate(value.tolist()):
                    if self.step <= new_tokens[i]:
                        emit(i, token, self.step == new_tokens[i])

            def end(self):
                pass

        self.torch.set_grad_enabled(False)  # of this thread
        self.model.generate(input_ids=ids, attention_mask=mask, decoder_input_ids=start, num_beams=1, do_sample=False,
                            min_new_tokens=max(new_tokens), max_new_tokens=max(new_tokens), streamer=Streamer())


def measure(engine, requests, new_tokens, batch):
    """Seconds for a burst, `engine.parallel` batches at a time."""
    begun = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(engine.parallel) as pool:
        list(pool.map(lambda at: engine.run(requests[at:at + batch], new_tokens[at:at + batch], lambda *_: None),
                      range(0, len(requests), batch)))
    return time.perf_counter() - begun


def make_engine(args):
    if args.engine.startswith("hf"):
        return HuggingFace(args, "bfloat16" if args.engine.endswith("bf16") else "float32")
    compute_type = {"ct2": "float32", "ct2-int8": "int8", "ct2-bf16": "bfloat16"}[args.engine]
    engine = CTranslate2(args, compute_type, 1)
    if args.threads == 1 or args.burst is None:
        return engine
    burst = json.loads(args.burst.read_text())
    requests, new_tokens = [r["prompt"] for r in burst], [r["max_tokens"] for r in burst]
    apart = CTranslate2(args, compute_type, args.threads)
    for e in (engine, apart):  # caches, memory
        measure(e, requests[:4], [2] * 4, 2)
    half = max(1, min(args.max_batch, len(requests) // args.threads))
    seconds = {e: measure(e, requests, new_tokens, half) for e in (engine, apart)}
    best = min(seconds, key=seconds.get)
    best.setting += "; burst of {}: {:.1f} s on all threads, {:.1f} s with a batch a thread".format(
        len(requests), seconds[engine], seconds[apart])
    return best


class Batcher:
    def __init__(self, engine, args):
        self.engine, self.args = engine, args
        self.queue = asyncio.Queue()
        self.pool = concurrent.futures.ThreadPoolExecutor(engine.parallel)

    async def run(self):
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self.queue.get()]
            until = loop.time() + self.args.max_wait
            while len(batch) < self.args.max_batch:
                try:
                    batch.append(self.queue.get_nowait() if loop.time() >= until else
                                 await asyncio.wait_for(self.queue.get(), until - loop.time()))
                except (asyncio.QueueEmpty, asyncio.TimeoutError):
                    break

            def emit(i, token, last, batch=batch):
                loop.call_soon_threadsafe(batch[i]["tokens"].put_nowait, (token, last))

            try:
                await loop.run_in_executor(self.pool, self.engine.run, [r["prompt"] for r in batch],
                                           [r["max_tokens"] for r in batch], emit)
            except Exception as e:  # whoever waits must hear of it
                print(f"peer_server: {e}", file=sys.stderr, flush=True)
                for r in batch:
                    r["tokens"].put_nowait((None, True))


async def handle(reader, writer, batcher):
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        request = json.loads(await reader.readexactly(length))
        request["tokens"] = asyncio.Queue()
        batcher.queue.put_nowait(request)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        last = False
        while not last:
            token, last = await request["tokens"].get()
            if token is None:
                break
            writer.write(b'data: {"choices": [{"token_ids": [%d]}]}\n\n' % token)
            await writer.drain()
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass  # the client has gone; its batch goes on
    finally:
        writer.close()


async def serve(engine, args, answers):
    batcher = Batcher(engine, args)
    batchers = [asyncio.create_task(batcher.run()) for _ in range(engine.parallel)]
    server = await asyncio.start_server(lambda r, w: handle(r, w, batcher), "127.0.0.1", 0, backlog=1024)
    print(json.dumps({"port": server.sockets[0].getsockname()[1], "version": engine.version,
                      "setting": f"{engine.setting}; batches of up to {args.max_batch}, wait {1e3 * args.max_wait:g} ms"}),
          file=answers, flush=True)
    await asyncio.gather(*batchers)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("engine", choices=["ct2", "ct2-int8", "ct2-bf16", "hf", "hf-bf16"])
    p.add_argument("--model", type=pathlib.Path, required=True)
    p.add_argument("--cache", type=pathlib.Path, required=True, help="converted models")
    p.add_argument("--threads", type=int, required=True)
    p.add_argument("--max-batch", type=int, default=16)
    p.add_argument("--max-wait", type=float, default=0.005)
    p.add_argument("--burst", type=pathlib.Path, help="requests to choose threads with")
    args = p.parse_args()
    args.beams = 1
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries that print must not disturb the answer
    asyncio.run(serve(make_engine(args), args, answers))


if __name__ == "__main__":
    main()
