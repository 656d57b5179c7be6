#!/bin/sh
# In a bare root of Debian (scripts/test_fresh --steps wheel): installs a wheel into a virtual environment, and uses it.
#
#   tests/scripts/wheel_in_root.sh SOURCE_TREE WHEEL
set -eu
root=$1
wheel=$2
export DEBIAN_FRONTEND=noninteractive
apt-get -q update >/dev/null
apt-get -q -y install --no-install-recommends python3-venv >/dev/null
python3 -m venv /root/wheel
/root/wheel/bin/pip install -q "$wheel"
model=$root/examples/demo-model
text="A tool to find duplicate files on a disk. It compares sizes and checksums."
/root/wheel/bin/python - "$model" "$text" >/root/by-library <<'END'
import sys
from tandem_infer import LLM, pipeline
model, text = sys.argv[1:]
with LLM(model, dtype="float32") as llm:
    print(llm.generate(text, max_new_tokens=20)[0].text)
    assert pipeline("summarization", llm=llm)(text, max_new_tokens=20)[0]["summary_text"]
END
/root/wheel/bin/tandem generate "$model" --dtype float32 --max-new-tokens 20 "$text" >/root/by-program
cmp /root/by-library /root/by-program
folder=$(/root/wheel/bin/python -c 'import tandem_infer, os; print(os.path.dirname(tandem_infer.__file__))')
status=0
"$folder/bin/tandem-decoder" --self-test || status=$?
case $status in
  0 | 77) ;;
  *) echo "wheel: the decoder's self-test ended with status $status" >&2; exit 1 ;;
esac
/root/wheel/bin/tandem serve "$model" --port 8123 --client-port 0 2>/root/serve.log &
server=$!
/root/wheel/bin/python - "$text" <<'END'
import sys
from tandem_infer.client import Client
with Client("http://127.0.0.1:8123") as client:
    client.wait_until_ready(60)
    assert client.complete(sys.argv[1], max_tokens=20).text
END
kill -TERM $server
wait $server
echo "wheel: $(/root/wheel/bin/python --version), $(cat /root/by-library)"
