"""The command `tandem`: the program of this package takes this process's place."""
from __future__ import annotations

import os
import sys

from ._library import prepare_environment, program_path


def main() -> None:
    program = program_path()
    if not program.exists():
        sys.exit(f"tandem: {program} is missing: this is the source of the package, not a wheel (scripts/build_wheel)")
    prepare_environment()
    os.execv(program, ["tandem", *sys.argv[1:]])


if __name__ == "__main__":
    main()
