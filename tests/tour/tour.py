"""A newcomer's tour: every command and every Python snippet of the documents, as written there, then clients from PyPI.

    python3 tests/tour/tour.py [--build FOLDER] [--only DOCUMENT] [--list]

Runs in a folder of its own, which holds what the documents take for granted (build/, examples/, a text or two), and in a
network namespace of its own where the system allows that, since the documents use the default ports. A command is left out
only for a reason of NOT_HERE. The last line is "N passed, N failed". Needs what scripts/python_tests installs.
"""
import argparse
import fcntl
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import documents

ROOT = Path(__file__).resolve().parents[2]
# Patterns of what cannot be run on a machine without a network, a GPU, other hosts or an hour of time; and why.
NOT_HERE = [
    (r"scripts/(quickstart|test\b|test_fresh|test_aarch64|check_locks|install_dependencies)|\.ci/run", "this is how the tour came to be run"),
    (r"^cmake --(preset|build)", "this is how the tour came to be run"),
    (r"ClusterSimulation", "scripts/test runs it beside the tour"),
    (r"check_style --fix", "changes the sources"),
    (r"check_style --tidy", "takes an hour"),
    (r"gpu_check|bench_gpu|bench_all_reduce|--device cuda|benchmarks/gpu|ptxas_report|TANDEM_CUDA_PLUGIN", "needs a GPU or its toolkit"),
    (r"sshleifer/|facebook/|florence-community/|openai/|microsoft/|google-t5/|Helsinki-NLP/|--compiler-cache|real_models|speech_accuracy", "needs the internet"),
    (r"docker|kubectl|systemctl|sudo|sbatch|srun|dpkg|apt|journalctl|/usr/local|--component|/etc/", "needs the system's services or its root folders"),
    (r"--hostfile", "needs other hosts"),
    (r"/tmp/(bart|peers|example)|benchmarks/(documents|python_library|scaling)|compare_peers|speculation/|distil_draft|online\.py|overload|online/live|bench_|make_random_bart|guidellm|SIMULATION|runtime_test|python_tests",
     "takes minutes"),
    (r"pip install", "needs the internet"),
    (r"examples/own_model|/tmp/own", "tests/scripts/own_model_test.sh does"),
    (r"build_image|podman|skopeo", "tests/scripts/build_image_test.sh does"),
    (r"http://collector", "needs a collector; tests/python/operations/test_otlp.py has one"),
]
HEARS = r"openai/whisper|transcri(be|ption)"  # in Python; the tour's server has a model that reads text
OF_THE_HUB = r"from tandem_infer import .*\n[^#]*\"(?!examples/)[a-z0-9-]+/[a-z]"  # in Python: a model by its id
TIMEOUT = 180


def bring_loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        name = b"lo".ljust(16, b"\0")
        flags = struct.unpack("16sh", fcntl.ioctl(s, 0x8913, name + bytes(24))[:18])[1]  # SIOCGIFFLAGS
        fcntl.ioctl(s, 0x8914, struct.pack("16sh22x", name, flags | 1))  # SIOCSIFFLAGS, IFF_UP


def enter_own_network():
    """Starts again in a network of its own, so that default ports are free; without the right to do that, goes on here."""
    if os.environ.get("TANDEM_TOUR_INSIDE"):
        bring_loopback_up()
        return
    for flags in (["--net"], ["--net", "--map-root-user"]):
        if shutil.which("unshare") and subprocess.run(["unshare", *flags, "true"], capture_output=True).returncode == 0:
            os.environ["TANDEM_TOUR_INSIDE"] = "1"
            os.execvp("unshare", ["unshare", *flags, sys.executable, *sys.argv])
    for port in (8000, 7070):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                print(f"tour: port {port} is in use here, and the documents use it")
                sys.exit(77)


def alike(shown, printed):
    """Words are equal, fractions nearly so: they may differ in the last digits from one processor to another."""
    def same(a, b):
        try:
            return a == b or ("." in a and abs(float(a.rstrip(",")) - float(b.rstrip(","))) < 2e-3)
        except ValueError:
            return False
    return len(shown) == len(printed) and all(map(same, shown, printed))


class Tour:
    def __init__(self, build):
        self.folder = Path(tempfile.mkdtemp(prefix="tandem-tour-"))
        for name in ("examples", "scripts", "benchmarks", "client", "python", "docs", "tests", "packaging"):
            (self.folder / name).symlink_to(ROOT / name)
        (self.folder / "build").symlink_to(build)
        for name in ("DIR", "MODEL"):
            (self.folder / name).symlink_to(ROOT / "examples/demo-model")
        texts = sorted((ROOT / "examples/texts").glob("*.txt"))
        (self.folder / "texts.txt").write_text("".join(" ".join(t.read_text().split()) + "\n" for t in texts))
        shutil.copy(texts[0], self.folder / "article.txt")
        self.environment = dict(os.environ, HOME=str(self.folder), XDG_RUNTIME_DIR=str(self.folder / "runtime"), OMPI_ALLOW_RUN_AS_ROOT="1",
                                TANDEM_MAX_QUEUE_TIME="0",  # this machine may be too slow for the documents' request rates
                                OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe",
                                OMPI_MCA_rmaps_base_oversubscribe="1",
                                PATH=f"{build / 'bin'}:{os.environ['PATH']}", PYTHONPATH=str(ROOT / "python"), TANDEM_LIBRARY=str(build / "bin/libtandem.so"))
        (self.folder / "runtime").mkdir(mode=0o700)
        self.server = None
        self.passed = self.failed = self.left_out = 0

    def report(self, where, what, error=None, seconds=0.0):
        self.passed += error is None
        self.failed += error is not None
        print(f"{'ok    ' if error is None else 'FAILED'} {where:32} {seconds:6.1f} s  {' '.join(what.split())[:100]}", flush=True)
        if error:
            print("       " + error.strip().replace("\n", "\n       "), flush=True)

    def stop_server(self):
        if self.server is None:
            return None
        os.kill(self.rank0() if self.under_mpirun else self.server.pid, signal.SIGTERM)
        try:
            status = self.server.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.server.pid, signal.SIGKILL)
            status = self.server.wait()
        self.server = None
        if self.under_mpirun and self.log.read_text().rstrip().endswith("stopped"):
            return None  # mpirun calls it a failure to be told to end
        return None if status == 0 else f"the server ended with status {status}: {self.log.read_text()[-800:]}"

    def rank0(self):
        """Of a job: Open MPI 5's mpirun ends its ranks at once when it is told to end."""
        own = f"XDG_RUNTIME_DIR={self.folder / 'runtime'}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                environment = (process / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if own in environment and b"OMPI_COMM_WORLD_RANK=0" in environment:
                return int(process.name)
        return self.server.pid

    def start_server(self, command):
        self.log = self.folder / "server.log"
        self.under_mpirun = command.startswith("mpirun")
        with open(self.log, "w") as log:
            self.server = subprocess.Popen(["bash", "-c", "exec " + command], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                           stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline and self.server.poll() is None:
            try:
                with urllib.request.urlopen("http://127.0.0.1:8000/health", timeout=5):
                    return None
            except OSError:
                time.sleep(0.1)
        return f"the server is not ready: {self.log.read_text()[-800:]}"

    def shell(self, snippet):
        text = snippet.text.strip()
        if re.search(r"tandem serve\b", text) and not re.search(r"bench serve", text):
            problem = self.stop_server()
            return problem or self.start_server(text.split(" #")[0].strip())
        done = subprocess.run(["bash", "-o", "pipefail", "-c", text], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=TIMEOUT)
        silent = ">" in text or text.startswith("export") or "cmake" in text
        if done.returncode != 0:
            return f"status {done.returncode}: {(done.stdout + done.stderr)[-800:]}"
        if not silent and not done.stdout.strip():
            return f"printed nothing: {done.stderr[-800:]}"
        if '"error":' in done.stdout:
            return f"answered an error: {done.stdout[-800:]}"
        printed = [line.split() for line in (done.stdout + "\n" + done.stderr).split("\n")]
        for line in snippet.output:
            if line.strip() not in ("...", "…") and not any(alike(line.split(), words) for words in printed):
                return f"the document shows {line!r}, the command printed: {done.stdout[-800:]}"
        return None

    def python(self, snippet, before):
        done = subprocess.run([sys.executable, "-c", before + snippet.text], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=TIMEOUT)
        return None if done.returncode == 0 else (done.stdout + done.stderr)[-800:]

    def document(self, name):
        before = ""  # what earlier snippets of the document have defined
        lacks_server = False  # the last one that the document starts is left out
        for snippet in documents.snippets(ROOT, name):
            reason = next((why for pattern, why in NOT_HERE if snippet.language == "sh" and re.search(pattern, snippet.text)), None)
            if snippet.language == "python" and re.search(OF_THE_HUB, snippet.text):
                reason = "needs the internet; tests/python/library runs it with a model of the repository"
            elif snippet.language == "python" and re.search(HEARS, snippet.text):
                reason = "needs a model that hears"
            if re.search(r"tandem serve\b", snippet.text):
                lacks_server = reason is not None
            elif lacks_server and re.search(r"bench serve|--connect|curl", snippet.text):
                reason = "the server that it is for is left out"
            if reason:
                self.left_out += 1
                print(f"-      {snippet.where:32}           {' '.join(snippet.text.split())[:70]}: {reason}", flush=True)
                continue
            start = time.monotonic()
            try:
                if snippet.language == "python":
                    if self.server is None:
                        self.start_server("build/bin/tandem serve examples/demo-model")
                    error = self.python(snippet, before)
                    before += snippet.text + "\n"
                else:
                    error = self.shell(snippet)
            except subprocess.TimeoutExpired:
                error = f"takes longer than {TIMEOUT} s"
            self.report(snippet.where, snippet.text, error, time.monotonic() - start)
        problem = self.stop_server()
        if problem:
            self.report(name, "the server's end", problem)

    def clients(self):
        """What people have, unmodified, against the server: the same text from each, and the text of `tandem generate`."""
        text = (ROOT / "examples/texts/dates.txt").read_text().strip()
        done = subprocess.run(["build/bin/tandem", "generate", "--model", "examples/demo-model", text], cwd=self.folder, env=self.environment,
                              capture_output=True, text=True, timeout=TIMEOUT)
        expected = done.stdout.strip()
        problem = self.start_server("build/bin/tandem serve examples/demo-model")
        if problem or not expected:
            self.report("clients", "tandem serve", problem or done.stderr)
            return
        for script in sorted((Path(__file__).parent / "clients").glob("*.py")):
            start = time.monotonic()
            done = subprocess.run([sys.executable, str(script), "http://127.0.0.1:8000", text], cwd=self.folder, env=self.environment,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT)
            answers = [line.strip() for line in done.stdout.split("\n") if line.strip()]
            error = None
            if done.returncode != 0 or not answers or any(a != expected for a in answers):
                error = f"expected {expected!r}: status {done.returncode}, {done.stdout[-400:]}{done.stderr[-800:]}"
            self.report(f"tests/tour/clients/{script.name}", f"{len(answers)} answers", error, time.monotonic() - start)
        problem = self.stop_server()
        if problem:
            self.report("clients", "the server's end", problem)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--only", help="one document, or \"clients\"")
    parser.add_argument("--list", action="store_true", help="show the commands, run nothing")
    options = parser.parse_args()
    found = ["README.md", "CONTRIBUTING.md"] + sorted(
        str(p.relative_to(ROOT)) for folder in ("docs", "client", "examples", "benchmarks", "packaging") for p in (ROOT / folder).rglob("*.md"))
    if options.list:
        for name in found:
            for snippet in documents.snippets(ROOT, name):
                print(f"{snippet.where}: {snippet.text}")
        return 0
    enter_own_network()
    tour = Tour(Path(options.build).resolve())
    try:
        for name in found:
            if options.only in (None, name):
                tour.document(name)
        if options.only in (None, "clients"):
            tour.clients()
    finally:
        tour.stop_server()
        shutil.rmtree(tour.folder, ignore_errors=True)
    print(f"{tour.left_out} left out, each for the reason above")
    print(f"{tour.passed} passed, {tour.failed} failed")
    return 0 if tour.failed == 0 and tour.passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
