#!/usr/bin/env python3
"""What `tandem serve` still answers when ten times as much is asked as it can do.

    overload.py --model examples/demo-model [--seconds 60] [--factor 10] [--deadlines 4,7,13,0,4/0.5] [-- --max-queue-time 1]

First the peak: so many clients as --concurrency says, each with a request at a time, without pause; answers a second. Then,
for each deadline, requests come at --factor times the peak, whatever has become of those before. A client waits for its
answer, with a deadline until then that it does not tell the server (0: as long as it takes), and closes its connection; who
is refused (429) does not come again. "4/0.5": half of the clients wait for 4 s, the others as long as it takes. Goodput is
whole answers a second within the time in which requests come, after the first --skip seconds, in which the server learns how
long clients wait, over the peak of before and after, whose mean is taken: a machine that others use is not as fast all the
time. Where clients are patient, all of them are waited for, and the rate until the last one is told too.

Each request has a source of its own (random tokens), so that no cache helps, and takes exactly --tokens tokens. What
stands behind "--" goes to `tandem serve`. This program shares the machine's cores with the server; it does little more than
write bytes that it has made before. Its processor time is told, as a share of one core, and how late it was in sending: where
that is more than some tenths of a second, the machine was too busy with other things for the figures to mean anything.
Everything is on 127.0.0.1. Needs nothing but Python.
"""
import argparse, collections, datetime, itertools, json, os, pathlib, random, re, resource, select, signal, socket, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks/support"))
from tandem_server import TandemServer, random_sources  # noqa: E402

MOST_OPEN = 26000  # connections (a port of this machine each); arrivals beyond are counted as not sent
TICK = 0.001  # seconds; requests that are due within one go out together


def parse(argv):
    own, server = (argv[:argv.index("--")], argv[argv.index("--") + 1:]) if "--" in argv else (argv, [])
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", type=pathlib.Path, default=ROOT / "examples/demo-model")
    p.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/bin", help="where tandem is")
    p.add_argument("--seconds", type=float, default=60, help="of overload, for each deadline")
    p.add_argument("--skip", type=float, default=10, help="of these, that do not count")
    p.add_argument("--drain", type=float, default=900, help="seconds that patient clients are waited for")
    p.add_argument("--peak-seconds", type=float, default=15, help="of each measurement of the peak")
    p.add_argument("--factor", type=float, default=10)
    p.add_argument("--deadlines", default="4,7,13,0,4/0.5", help="seconds; 0: none; behind a /: the share of patient clients")
    p.add_argument("--concurrency", type=int, default=32, help="clients at the peak")
    p.add_argument("--source", type=int, default=64, help="tokens of a source")
    p.add_argument("--tokens", type=int, default=48, help="tokens of an answer; 0: what the model says")
    p.add_argument("--cold", action="store_true", help="a new server for each deadline, which has served nothing before")
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args(own)
    args.server = server
    return args


def start(args, folder):
    return TandemServer(args.bin / "tandem", [args.model, *args.server], folder)


def make_requests(args, count=2000):
    """Bytes of whole HTTP requests."""
    out = []
    for ids in itertools.islice(random_sources(args.model, args.source, random.Random(args.seed)), count):
        body = {"prompt": ids, "temperature": 0}
        if args.tokens:
            body.update(max_tokens=args.tokens, min_tokens=args.tokens)
        body = json.dumps(body).encode()
        out.append(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                   b"Content-Length: %d\r\n\r\n" % len(body) + body)
    return out


class Connection:
    """One request at a time."""
    __slots__ = ("socket", "begun", "data", "patient")

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setblocking(False)
        self.data = b""


class Load:
    """Requests under way, by epoll alone: asyncio takes a quarter of a millisecond for a request, on cores that the server has too."""

    def __init__(self, port, requests, deadline=0):
        self.port, self.requests, self.deadline, self.next = port, requests, deadline, 0
        self.epoll, self.busy, self.idle, self.waiting = select.epoll(), {}, [], collections.deque()

    def ask(self, patient=False):
        connection = self.idle.pop() if self.idle else Connection(self.port)
        connection.begun, connection.data = time.monotonic(), b""
        self.next += 1
        try:
            connection.socket.send(self.requests[self.next % len(self.requests)])
        except OSError:  # closed while it was idle
            connection = Connection(self.port)
            connection.begun = time.monotonic()
            connection.socket.send(self.requests[self.next % len(self.requests)])
        connection.patient = patient or not self.deadline
        self.busy[connection.socket.fileno()] = connection
        self.epoll.register(connection.socket, select.EPOLLIN)
        if not connection.patient:
            self.waiting.append((connection.begun + self.deadline, connection.begun, connection))

    def end(self, connection, keep):
        self.epoll.unregister(connection.socket)
        del self.busy[connection.socket.fileno()]
        if keep:
            self.idle.append(connection)
        else:
            connection.socket.close()

    def answers(self, seconds):
        """What ends within that time: (status, seconds, answer, patient) of each; status 0: given up at the deadline, or cut off."""
        out, until = [], time.monotonic() + seconds
        while not out and (left := until - time.monotonic()) > 0:
            if self.waiting:
                left = max(0, min(left, self.waiting[0][0] - time.monotonic()))
            for fd, _ in self.epoll.poll(left):
                connection = self.busy[fd]
                try:
                    data = connection.socket.recv(65536)
                except ConnectionError:
                    data = b""
                connection.data += data
                if data and not whole(connection.data):
                    continue
                self.end(connection, keep=bool(data))
                out.append((int(connection.data[9:12] or 0), time.monotonic() - connection.begun, connection.data, connection.patient))
            while self.waiting and self.waiting[0][0] <= time.monotonic():
                _, begun, connection = self.waiting.popleft()
                if connection.begun == begun and self.busy.get(connection.socket.fileno()) is connection:
                    self.end(connection, keep=False)
                    out.append((0, time.monotonic() - begun, b"", False))
        return out

    def close(self):
        for connection in [*self.busy.values()]:
            self.end(connection, keep=False)
        for connection in self.idle:
            connection.socket.close()
        self.epoll.close()


def whole(data):
    """Whether an answer with a Content-Length has come to its end."""
    head = data.find(b"\r\n\r\n")
    if head < 0:
        return False
    at = data.lower().find(b"\r\ncontent-length: ", 0, head + 2) + 18
    return len(data) >= head + 4 + int(data[at:data.find(b"\r\n", at)])


def check(status, answer, args):
    """True if it is an answer; what is neither answer nor refusal ends the run."""
    if status in (0, 429):
        return False
    if status != 200:
        sys.exit(f"overload: {answer[:1000].decode(errors='replace')}")
    tokens = int(re.search(rb'"completion_tokens":(\d+)', answer).group(1))
    if args.tokens and tokens != args.tokens:
        sys.exit(f"overload: {tokens} tokens instead of {args.tokens}")
    return True


def ask_without_pause(port, requests, args, seconds):
    """The times of the answers of --concurrency clients, each with a request at a time."""
    load, done, begun, again = Load(port, requests), [], time.monotonic(), collections.deque()
    for _ in range(args.concurrency):
        load.ask()
    while (now := time.monotonic()) < begun + seconds:
        while again and again[0] <= now:
            again.popleft()
            load.ask()
        for status, _, answer, _ in load.answers(0.02 if again else 0.1):
            if check(status, answer, args):
                done.append(time.monotonic() - begun)
                load.ask()
            else:
                again.append(time.monotonic() + 0.1)
    load.close()
    return done


def peak(port, requests, args):
    """Answers a second of clients that ask without pause."""
    return steady_rate(ask_without_pause(port, requests, args, args.peak_seconds), args.concurrency)


def steady_rate(done, clients):
    """Answers a second of clients that ask without pause, from the times of their answers, in order. Answers come a batch at a
    time, so a count between two times is off by as much as a batch. From an answer of a client to its next, as many answers
    come as there are clients: this is the mean over all such times. Neither the filling nor the emptying is in it."""
    if len(done) < 2 * clients:
        sys.exit(f"overload: {len(done)} answers are too few to measure the peak of {clients} clients: a longer --peak-seconds?")
    return (len(done) - clients) * clients / (sum(done[-clients:]) - sum(done[:clients]))


def overload(port, requests, args, rate, deadline, patient):
    load, chance = Load(port, requests, deadline), random.Random(args.seed + 1)
    out = {"sent": 0, "patient": 0, "refused": 0, "given up": 0, "lost": 0, "latencies": [], "unsent": 0, "late": [],
           "in time": [0, 0], "patient served": 0, "last": 0}  # in time: of the others, of the patient

    def take(seconds):
        for status, time_taken, answer, stays in load.answers(seconds):
            now = time.monotonic() - begun
            if check(status, answer, args):
                out["latencies"].append(time_taken)
                out["in time"][stays] += args.skip <= now <= args.seconds
                out["patient served"] += stays
                out["last"] = now
            elif status == 429:
                out["refused"] += 1
            else:
                out["lost" if stays else "given up"] += 1

    begun, cpu = time.monotonic(), time.process_time()
    at = chance.expovariate(rate)
    while at < args.seconds:
        while at <= (now := time.monotonic() - begun):
            out["late"].append(now - at)
            at += chance.expovariate(rate)
            if len(load.busy) >= args.most_open:
                out["unsent"] += 1
            else:
                stays = not deadline or chance.random() < patient
                load.ask(stays)
                out["sent"] += 1
                out["patient"] += stays
        take(max(at - now, TICK))
    out["cpu"] = (time.process_time() - cpu) / (time.monotonic() - begun)
    end = time.monotonic() + args.drain
    while load.busy and time.monotonic() < end:
        take(0.1)
    out["lost"] += sum(connection.patient for connection in load.busy.values())
    load.close()
    out["latencies"].sort()
    out["late"].sort()
    return out


def share(values, part):
    return f"{values[min(len(values) - 1, int(part * len(values)))]:.2f}" if values else "–"


def main():
    args = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    args.most_open = min(MOST_OPEN, most - 200)  # the server has as many as this program
    requests = make_requests(args)
    print(f"{datetime.date.today()}, {os.cpu_count()} cores, {args.seconds:g} s each, sources of {args.source} tokens, "
          f"{args.tokens or 'as many as the model says'} tokens out{' ' + ' '.join(args.server) if args.server else ''}")
    print("| deadline, s | peak before, after | goodput, 1/s | of the peak | to the impatient, of their share | patient served, until the last 1/s | "
          "refused | given up | p50, s | p99, s | generator, late p99 |")
    print("|---" * 11 + "|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        folder, server = pathlib.Path(folder), None
        try:
            server = start(args, folder)
            ask_without_pause(server.port, requests, args, 3)  # warms up
            before = peak(server.port, requests, args)
            for what in args.deadlines.split(","):
                deadline, _, patient = what.partition("/")
                deadline, patient = float(deadline), float(patient or 0)
                if args.cold:
                    server.close()
                    server = start(args, folder)
                r = overload(server.port, requests, args, args.factor * before, deadline, patient)
                after = peak(server.port, requests, args)
                top = (before + after) / 2
                goodput, others = (n / (args.seconds - args.skip) for n in (sum(r["in time"]), r["in time"][0]))
                theirs = f"{100 * others / top / (1 - patient):.0f} %" if deadline and patient < 1 else "–"
                stayed = (f"{r['patient served']} of {r['patient']}, {r['patient served'] / r['last']:.1f}"
                          if r["patient served"] else "–")
                print(f"| {what} | {before:.1f}, {after:.1f} | {goodput:.1f} | {100 * goodput / top:.0f} % | {theirs} | {stayed} | "
                      f"{r['refused']} of {r['sent']}{' (%d not sent)' % r['unsent'] if r['unsent'] else ''} | {r['given up']} | "
                      f"{share(r['latencies'], 0.5)} | {share(r['latencies'], 0.99)} | {100 * r['cpu']:.0f} %, {share(r['late'], 0.99)} s |",
                      flush=True)
                before = after
        finally:
            if server:
                server.close()


if __name__ == "__main__":
    main()
