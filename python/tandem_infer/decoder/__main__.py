"""tandem-decoder --serve PARENT, tandem-page-decoder --serve PARENT: jobs come over standard input, a socket, with a descriptor each; frames go back.

The protocol is runtime/media/decoder_protocol.h's.
"""
from __future__ import annotations

import os
import pathlib
import sys


def _find_packages() -> None:
    """What lies beside this package; under -I nothing of it would be found that is in no site-packages."""
    folder = str(pathlib.Path(__file__).resolve().parents[2])
    if folder not in sys.path:
        sys.path.insert(0, folder)


def main() -> int:
    documents = sys.argv[1:2] == ["--documents"]  # tandem-page-decoder
    if documents:
        del sys.argv[1]
    if len(sys.argv) == 2 and sys.argv[1] == "--self-test":
        from tandem_infer.decoder import self_test

        return self_test.main()
    if len(sys.argv) != 3 or sys.argv[1] != "--serve":
        print("tandem-decoder reads files of sound and images for tandem, tandem-page-decoder PDF files; it starts them.\n\n"
              "  tandem-decoder --self-test   tries what it must not be able to do; status 0: nothing worked,\n"
              "                               77: this system has no seccomp", file=sys.stderr)
        return 2
    from tandem_infer.decoder import sandbox

    if not sandbox.end_with_parent(int(sys.argv[2])):
        return 0
    # Before numpy: threads would share nothing of the sandbox.
    for name in ("OPENBLAS", "OMP", "MKL"):
        os.environ[name + "_NUM_THREADS"] = "1"
    from tandem_infer.decoder import serve

    return serve.serve(documents)


if __name__ == "__main__":
    _find_packages()
    # Its own end is quiet: the interpreter's would open files.
    os._exit(main())
