#!/usr/bin/env python3
"""Without drafts and with them, as a server's clients see it: two servers, the same texts in turns.

    compare_served.py --model examples/demo-model --texts texts.txt [--clients 1,2,8] [--rounds 25] [--max-tokens 48] [--to-the-end]

Here steps run ahead of their answers where there are no drafts, so that what a pause for drafts costs is in the figures, most
of all those of a small model. A ratio is that of a round; the texts that come back must be the same. --to-the-end generates
--max-tokens whatever the end token says.
"""
import argparse, concurrent.futures, http.client, json, pathlib, shlex, statistics, sys, tempfile, time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from tandem_server import TandemServer  # noqa: E402


class Server(TandemServer):
    def __init__(self, args, drafts, folder):
        super().__init__(args.tandem, [args.model, "--num-speculative-tokens", drafts, "--no-enable-encoder-cache",
                                       "--no-enable-prefix-caching", *shlex.split(args.args)], folder)

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port)

    @staticmethod
    def ask(connection, method, path, body=None):
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            sys.exit(f"compare_served: {path}: {answer.status} {text[:200]!r}")
        return json.loads(text)

    def complete(self, bodies, clients):
        """(seconds, texts): each client sends its share of the requests, one after the other."""
        def client(i):
            connection = self.connect()
            return [self.ask(connection, "POST", "/v1/completions", body)["choices"][0]["text"] for body in bodies[i::clients]]
        begun = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(clients) as pool:
            texts = list(pool.map(client, range(clients)))
        return time.perf_counter() - begun, texts


def compare(args, bodies, servers):
    print("| clients | without, s | with drafts, s | faster by | least, most |\n|---|---|---|---|---|")
    for clients in map(int, args.clients.split(",")):
        rounds = []
        for i in range(args.rounds + 1):
            results = {which: servers[which].complete(bodies, clients) for which in ((0, 1) if i % 2 else (1, 0))}
            if results[0][1] != results[1][1]:
                sys.exit("compare_served: drafts changed a text")
            if i > 0:  # the first round warms up
                rounds.append((results[0][0], results[1][0]))
        ratios = sorted(without / drafted for without, drafted in rounds)
        print(f"| {clients} | {statistics.median(r[0] for r in rounds):.3f} | {statistics.median(r[1] for r in rounds):.3f} | "
              f"{statistics.median(ratios):.2f} | {ratios[0]:.2f}, {ratios[-1]:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", default="build/bin/tandem")
    parser.add_argument("--model", required=True)
    parser.add_argument("--texts", required=True, type=pathlib.Path, help="a prompt a line")
    parser.add_argument("--args", default="", help="more arguments of tandem serve")
    parser.add_argument("--clients", default="1,8")
    parser.add_argument("--drafts", type=int, default=8, help="--num-speculative-tokens of the second server")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--to-the-end", action="store_true")
    args = parser.parse_args()
    bodies = [json.dumps({"prompt": line, "max_tokens": args.max_tokens, "temperature": 0, "ignore_eos": args.to_the_end})
              for line in args.texts.read_text().splitlines() if line]
    with tempfile.TemporaryDirectory() as folder:
        servers = []
        try:
            for drafts in (0, args.drafts):
                servers.append(Server(args, drafts, folder))
            compare(args, bodies, servers)
        finally:
            for server in servers:
                server.close()


if __name__ == "__main__":
    main()
