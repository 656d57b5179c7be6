#!/bin/sh
# The repository's style (scripts/check_style).
set -eu
exec "$1/scripts/check_style"
