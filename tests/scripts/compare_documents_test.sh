#!/bin/sh
# scripts/compare_documents: finds each kind of item that has left the documents; takes moves, other words and an allow-list.
# Exit status 77: python3 or git is missing.
set -eu
source=$1
command -v python3 >/dev/null || exit 77
command -v git >/dev/null || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
compare() {
  status=0
  "$source/scripts/compare_documents" HEAD --root "$folder" "$@" >"$folder/found" 2>&1 || status=$?
}
expect() {
  [ "$status" = "$1" ] || { cat "$folder/found"; echo "FAILED: status $status, not $1: $2"; exit 1; }
}

mkdir "$folder/docs"
cat >"$folder/README.md" <<'END'
Use `--old-flag` or see [serving](docs/serving.md#routes).

    build/bin/tandem serve MODEL
END
cat >"$folder/docs/serving.md" <<'END'
## Routes
`POST /v1/answers` counts `tandem:answers_total`. `TANDEM_OLD_ROOM` bounds it: 5,000 requests, four seconds, 64 MiB, 0.85 of the time.
```
curl http://127.0.0.1:8000/v1/answers
```
END
git -C "$folder" init -q
git -C "$folder" add README.md docs
git -C "$folder" -c user.name=t -c user.email=t@localhost commit -q -m t

compare
expect 0 "nothing has changed"

# Moves and other words for the same number lose nothing; --each lists the moves.
cat >"$folder/README.md" <<'END'
The time falls to 0.85. At most 5000 requests wait 4 s and take 64 MiB (`TANDEM_OLD_ROOM`, `POST /v1/answers`, `tandem:answers_total`).

```
curl http://127.0.0.1:8000/v1/answers
```
END
cat >"$folder/docs/serving.md" <<'END'
`--old-flag`: [above](#routes).

    build/bin/tandem serve MODEL
END
compare
expect 0 "everything has moved"
compare --each
expect 1 "--each sees moves"
grep -q '^figure   4 s    docs/serving.md$' "$folder/found" || { cat "$folder/found"; echo "FAILED: no figure has moved"; exit 1; }

# One of each kind is lost.
echo "Nothing." >"$folder/README.md"
echo "Nothing." >"$folder/docs/serving.md"
compare
expect 1 "everything is lost"
for item in 'flag     --old-flag' 'route    /v1/answers' 'metric   tandem:answers_total' 'variable TANDEM_OLD_ROOM' \
    'span     POST /v1/answers' 'link     docs/serving.md#routes' 'line     build/bin/tandem serve MODEL' \
    'figure   5000' 'figure   4 s' 'figure   64 MiB' 'figure   0.85'; do
  grep -q "^$item    " "$folder/found" || { cat "$folder/found"; echo "FAILED: no line $item"; exit 1; }
done

# Removals on purpose.
cat >"$folder/allow" <<'END'
# why they went
flag --old-flag  # renamed
span *
link *
line *
route *
metric tandem:answers_*
variable TANDEM_OLD_ROOM
figure *
END
compare --allow "$folder/allow"
expect 0 "all of it is allowed"

"$source/scripts/compare_documents" no_such_revision --root "$folder" 2>/dev/null && exit 1
[ $? = 2 ]
