"""A rank that dies under way."""
import json
import os
import pathlib
import signal
import subprocess
import threading

from check_steps import SMALL_CACHE, TINY, Failed, Step, as_request, judge



def descendants(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in map(int, task.read_text().split()):
                found += [child, *descendants(child)]
        except OSError:
            pass
    return found


def rank_processes(pid):
    """Workers of Tandem under a process."""
    out = []
    for child in descendants(pid):
        try:
            words = pathlib.Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"/tandem") and b"worker" in words:
            out.append(child)
    return out


def killed(run):
    """One of two ranks is killed under way: every request is answered nevertheless, with the same tokens."""
    run.need_processes()
    folder = run.models / TINY
    process = run.start([run.pack / "bin/tandem", "generate", "--jsonl", "--model", folder, "--input", "-", "--device", run.device,
                         "--dtype", "float32", *run.as_processes(2), *SMALL_CACHE, "--max-num-seqs", "4"],
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    cases = run.cases(folder)
    first, rest = cases[:1], cases[1:]
    lines = []
    answered = threading.Event()

    def read():
        for line in process.stdout:
            lines.append(line)
            answered.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        process.stdin.write("".join(json.dumps(as_request(c)) + "\n" for c in first))
        process.stdin.flush()
        if not answered.wait(run.left()):
            raise Failed("no answer before the fault")
        workers = rank_processes(process.pid)
        if len(workers) < 2:
            raise Failed(f"{len(workers)} processes of workers were found, not 2")
        process.stdin.write("".join(json.dumps(as_request(c)) + "\n" for c in rest))
        process.stdin.flush()
        run.log.write(f"kills {workers[-1]} of {workers}\n")
        os.kill(workers[-1], signal.SIGKILL)
        process.stdin.close()
        reader.join(run.left())
        if reader.is_alive():
            raise Failed(f"{len(lines)} of {len(cases)} requests were answered in time")
        status = process.wait(run.left())
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    figures, bad = judge(run, folder, "".join(lines))
    if status != 0 or bad:
        raise Failed(f"status {status}; " + "; ".join(bad[:3]), figures)
    return figures


STEPS = [
    Step("faults.rank_killed", "one of two ranks is killed: all requests answered, exact", 90, 10, killed),
]
