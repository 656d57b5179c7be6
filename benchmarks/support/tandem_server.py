"""`tandem serve` for a benchmark: on a free port, in a folder of its own."""
import json, os, pathlib, re, signal, subprocess, sys, tempfile, time


class TandemServer:
    """Serves when it has been made; close() ends it. arguments: the model and flags. Its log and its runtime folder are in `folder`."""

    def __init__(self, tandem, arguments, folder):
        own = pathlib.Path(tempfile.mkdtemp(dir=folder))
        self.log = own / "log"
        command = [tandem, "serve", *arguments, "--port", 0, "--client-port", 0, "--disable-access-log"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=dict(os.environ, XDG_RUNTIME_DIR=str(own)))
        try:
            while " ready" not in self.log.read_text():
                if self.process.poll() is not None:
                    sys.exit(f"tandem serve ended: {self.log.read_text()}")
                time.sleep(0.05)
        except BaseException:
            self.close()
            raise
        self.port = int(re.search(r"HTTP at http://[^:]+:(\d+)/", self.log.read_text()).group(1))

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def random_sources(model, length, chance):
    """Ids of sources of so many random tokens, without end, so that no cache helps. model: a checkpoint directory."""
    config = json.loads((model / "config.json").read_text())
    while True:
        yield [config["bos_token_id"], *(chance.randint(4, config["vocab_size"] - 2) for _ in range(length - 2)),
               config["eos_token_id"]]
