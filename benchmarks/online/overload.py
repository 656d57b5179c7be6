#!/usr/bin/env python3
"""What `tandem serve` still answers when ten times as much is asked as it can do.

    overload.py --model examples/demo-model [--seconds 50] [--factor 10] [--deadlines 0,13,7,4] [-- --max-queue-time 0]

First the peak: so many clients as --concurrency says, each with a request at a time, without pause; answers a second. Then,
for each deadline, requests come at --factor times the peak, whatever has become of those before. A client waits for its
answer, with a deadline until then (0: as long as it takes), and closes its connection; who is refused (429) does not come
again. Goodput is whole answers a second within the time in which requests come, over the peak of before and after, whose
mean is taken: a machine that others use is not as fast all the time.

Each request has a source of its own (random tokens), so that no cache helps, and takes exactly --tokens tokens. What
stands behind "--" goes to `tandem serve`. This program shares the machine's cores with the server; it does little more than
write bytes that it has made before. Its processor time is told, as a share of one core, and how late it was in sending: where
that is more than some tenths of a second, the machine was too busy with other things for the figures to mean anything.
Everything is on 127.0.0.1. Needs nothing but Python.
"""
import argparse, asyncio, datetime, json, os, pathlib, random, re, signal, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_OPEN = 8000  # connections; arrivals beyond are counted as not sent


def parse(argv):
    own, server = (argv[:argv.index("--")], argv[argv.index("--") + 1:]) if "--" in argv else (argv, [])
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", type=pathlib.Path, default=ROOT / "examples/demo-model")
    p.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/bin", help="where tandem is")
    p.add_argument("--seconds", type=float, default=50, help="of overload, for each deadline")
    p.add_argument("--peak-seconds", type=float, default=10, help="of each measurement of the peak")
    p.add_argument("--factor", type=float, default=10)
    p.add_argument("--deadlines", default="0,13,7,4", help="seconds; 0: none")
    p.add_argument("--concurrency", type=int, default=32, help="clients at the peak")
    p.add_argument("--source", type=int, default=64, help="tokens of a source")
    p.add_argument("--tokens", type=int, default=48, help="tokens of an answer; 0: what the model says")
    p.add_argument("--cold", action="store_true", help="a new server for each deadline, which has served nothing before")
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args(own)
    args.server = server
    return args


class Server:
    def __init__(self, args, folder):
        self.log = folder / f"{time.monotonic_ns()}.log"
        command = [args.bin / "tandem", "serve", args.model, "--port", 0, "--client-port", 0, "--disable-access-log", *args.server]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=dict(os.environ, XDG_RUNTIME_DIR=str(folder)))
        while " ready" not in self.log.read_text():
            if self.process.poll() is not None:
                sys.exit(f"overload: the server ended: {self.log.read_text()}")
            time.sleep(0.05)
        self.port = int(re.search(r"HTTP at http://[^:]+:(\d+)/", self.log.read_text()).group(1))

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def make_requests(args, count=2000):
    """Bytes of whole HTTP requests."""
    config = json.loads((args.model / "config.json").read_text())
    chance, out = random.Random(args.seed), []
    for _ in range(count):
        ids = [config["bos_token_id"], *(chance.randint(4, config["vocab_size"] - 2) for _ in range(args.source - 2)),
               config["eos_token_id"]]
        body = {"prompt": ids, "temperature": 0}
        if args.tokens:
            body.update(max_tokens=args.tokens, min_tokens=args.tokens)
        body = json.dumps(body).encode()
        out.append(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                   b"Content-Length: %d\r\n\r\n" % len(body) + body)
    return out


class Connection(asyncio.Protocol):
    """One request at a time. Keeps of an answer what is asked here: its status, and that it is whole."""

    def __init__(self):
        self.answer, self.data = None, b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.data += data
        head = self.data.find(b"\r\n\r\n")
        if head < 0:
            return
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", self.data[:head + 2])
        if len(self.data) < head + 4 + int(length.group(1)):
            return
        answer, self.answer, whole, self.data = self.answer, None, self.data, b""
        if answer and not answer.done():
            answer.set_result((int(whole[9:12]), whole))

    def connection_lost(self, exc):
        if self.answer and not self.answer.done():
            self.answer.set_result((0, b""))


class Load:
    def __init__(self, port, requests):
        self.port, self.requests, self.next, self.idle = port, requests, 0, []
        self.num_open = 0

    async def ask(self, deadline):
        """(status, seconds, the answer); status 0: given up at the deadline."""
        loop = asyncio.get_running_loop()
        begun, self.next = loop.time(), self.next + 1
        self.num_open += 1
        try:
            while self.idle and self.idle[-1].transport.is_closing():
                self.idle.pop()
            connection = self.idle.pop() if self.idle else (
                await loop.create_connection(Connection, "127.0.0.1", self.port))[1]
            connection.answer = answer = loop.create_future()
            connection.transport.write(self.requests[self.next % len(self.requests)])
            timer = loop.call_at(begun + deadline, lambda: answer.done() or answer.set_result((0, b""))) if deadline else None
            status, whole = await answer
            if timer:
                timer.cancel()
            if status:
                self.idle.append(connection)
            else:
                connection.transport.abort()
            return status, loop.time() - begun, whole
        finally:
            self.num_open -= 1


def check(status, whole, args):
    """True if it is an answer; what is neither answer nor refusal ends the run."""
    if status in (0, 429):
        return False
    if status != 200:
        sys.exit(f"overload: {whole[:1000].decode(errors='replace')}")
    tokens = int(re.search(rb'"completion_tokens":(\d+)', whole).group(1))
    if args.tokens and tokens != args.tokens:
        sys.exit(f"overload: {tokens} tokens instead of {args.tokens}")
    return True


async def peak(port, requests, args, seconds):
    load, loop, done = Load(port, requests), asyncio.get_running_loop(), []
    begun = loop.time()

    async def client():
        while loop.time() < begun + seconds:
            status, _, whole = await load.ask(0)
            if check(status, whole, args):
                done.append(loop.time() - begun)
            else:
                await asyncio.sleep(0.1)

    await asyncio.gather(*(client() for _ in range(args.concurrency)))
    # Neither the filling nor the emptying.
    skip = min(2.0, seconds / 4)
    return sum(skip <= t <= seconds for t in done) / (seconds - skip)


async def overload(port, requests, args, rate, deadline):
    load, loop, chance = Load(port, requests), asyncio.get_running_loop(), random.Random(args.seed + 1)
    begun, cpu = loop.time(), time.process_time()
    out = {"sent": 0, "refused": 0, "given up": 0, "latencies": [], "answers": 0, "unsent": 0, "retry_after": [], "late": []}
    tasks = set()

    async def one():
        status, seconds, whole = await load.ask(deadline)
        if check(status, whole, args):
            out["latencies"].append(seconds)
            out["answers"] += loop.time() <= begun + args.seconds
        elif status == 429:
            out["refused"] += 1
            out["retry_after"].append(int(re.search(rb"(?i)retry-after: (\d+)", whole).group(1)))
        else:
            out["given up"] += 1

    at = 0.0
    while (at := at + chance.expovariate(rate)) < args.seconds:
        if (wait := begun + at - loop.time()) > 0:
            await asyncio.sleep(wait)
        out["late"].append(max(0, loop.time() - begun - at))
        if load.num_open >= MOST_OPEN:
            out["unsent"] += 1
            continue
        task = asyncio.ensure_future(one())
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        out["sent"] += 1
    out["cpu"] = (time.process_time() - cpu) / (loop.time() - begun)
    await asyncio.sleep(max(0, begun + args.seconds - loop.time()))
    if tasks:
        await asyncio.wait(tasks, timeout=120)
    for connection in load.idle:
        connection.transport.close()
    out["latencies"].sort()
    out["late"].sort()
    return out


def share(values, part):
    return f"{values[min(len(values) - 1, int(part * len(values)))]:.2f}" if values else "–"


def main():
    args = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    requests = make_requests(args)
    print(f"{datetime.date.today()}, {os.cpu_count()} cores, {args.seconds:g} s each, sources of {args.source} tokens, "
          f"{args.tokens or 'as many as the model says'} tokens out{' ' + ' '.join(args.server) if args.server else ''}")
    print("| deadline, s | peak before, after | goodput, 1/s | of the peak | refused | given up | p50, s | p99, s | Retry-After p50 | generator, late p99 |")
    print("|---" * 10 + "|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        folder, server = pathlib.Path(folder), None
        try:
            server = Server(args, folder)
            asyncio.run(peak(server.port, requests, args, 3))  # warms up
            before = asyncio.run(peak(server.port, requests, args, args.peak_seconds))
            for deadline in [float(d) for d in args.deadlines.split(",")]:
                if args.cold:
                    server.close()
                    server = Server(args, folder)
                r = asyncio.run(overload(server.port, requests, args, args.factor * before, deadline))
                after = asyncio.run(peak(server.port, requests, args, args.peak_seconds))
                goodput = r["answers"] / args.seconds
                r["retry_after"].sort()
                print(f"| {deadline:g} | {before:.1f}, {after:.1f} | {goodput:.1f} | {200 * goodput / (before + after):.0f} % | "
                      f"{r['refused']} of {r['sent']}{' (%d not sent)' % r['unsent'] if r['unsent'] else ''} | {r['given up']} | "
                      f"{share(r['latencies'], 0.5)} | {share(r['latencies'], 0.99)} | {share(r['retry_after'], 0.5)} | {100 * r['cpu']:.0f} %, {share(r['late'], 0.99)} s |",
                      flush=True)
                before = after
        finally:
            if server:
                server.close()


if __name__ == "__main__":
    main()
