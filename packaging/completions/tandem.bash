# bash completion for tandem; written by scripts/make_man_and_completions
_tandem() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command="" word flags=""
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$command $word" in
      " generate") command="generate" ;;
      " read") command="read" ;;
      " score") command="score" ;;
      " transcribe") command="transcribe" ;;
      " serve") command="serve" ;;
      " worker") command="worker" ;;
      " bench") command="bench" ;;
      " tokenize") command="tokenize" ;;
      " encode") command="encode" ;;
      " inspect") command="inspect" ;;
      "bench serve") command="bench serve" ;;
      "bench throughput") command="bench throughput" ;;
      "bench latency") command="bench latency" ;;
    esac
  done
  if [ "$prev" = = ]; then
    prev=${COMP_WORDS[COMP_CWORD-2]}
  elif [ "$cur" = = ]; then
    cur=
  fi
  case $prev in
    --dtype) COMPREPLY=($(compgen -W "auto float32 float16 bfloat16 int8" -- "$cur")); return ;;
    --device) COMPREPLY=($(compgen -W "auto cpu cuda cuda:0" -- "$cur")); return ;;
    --kv-cache-dtype) COMPREPLY=($(compgen -W "auto fp8 fp8_e4m3" -- "$cur")); return ;;
    --quantization) COMPREPLY=($(compgen -W "none int8 int4 fp8" -- "$cur")); return ;;
    --log-level) COMPREPLY=($(compgen -W "trace debug info warning error off" -- "$cur")); return ;;
    --log-format) COMPREPLY=($(compgen -W "text json" -- "$cur")); return ;;
    --preemption-mode) COMPREPLY=($(compgen -W "auto recompute swap" -- "$cur")); return ;;
    --cpu-binding) COMPREPLY=($(compgen -W "auto rank none" -- "$cur")); return ;;
    --distributed-executor-backend) COMPREPLY=($(compgen -W "auto threads processes mpi join" -- "$cur")); return ;;
    --pooling) COMPREPLY=($(compgen -W "mean none" -- "$cur")); return ;;
    --format) COMPREPLY=($(compgen -W "json npy text srt vtt verbose_json" -- "$cur")); return ;;
    --backend) COMPREPLY=($(compgen -W "openai openai-chat openai-embeddings openai-audio" -- "$cur")); return ;;
    --endpoint-type) COMPREPLY=($(compgen -W "openai openai-chat openai-embeddings openai-audio" -- "$cur")); return ;;
    --config | --api-key-file | --ssl-certfile | --ssl-keyfile | --output | --dataset-path | --plot | --save-result | --input | --model | --hostfile | --worker-program | --access-file | --download-dir | --ca-cert) COMPREPLY=($(compgen -f -- "$cur")); return ;;
  esac
  case $command in
    "") flags="generate read score transcribe serve worker bench tokenize encode inspect -h --help --version" ;;
    "generate") flags="--input --lines --jsonl --stream --model --revision --download-dir --device --dtype --quantization --threads --connect --access-file --max-num-seqs --max-num-batched-tokens --block-size --kv-cache-memory --kv-cache-dtype --gpu-memory-utilization --enforce-eager --gemm-tuning --num-gpu-blocks-override --swap-space --preemption-mode --enable-prefix-caching --no-enable-prefix-caching --enable-encoder-cache --no-enable-encoder-cache --num-speculative-tokens --speculative-config --seed --tensor-parallel-size --tp --data-parallel-size --dp --distributed-executor-backend --hostfile --worker-program --cpu-binding --run-ahead --max-restarts --restart-window --startup-timeout --step-timeout --worker-timeout --cluster-host --cluster-port --log-level --log-format --max-new-tokens --max-tokens --max-length --min-new-tokens --min-tokens --min-length --source-lang --target-lang --task --num-beams --n --num-return-sequences --best-of --do-sample --temperature --top-k --top-p --min-p --repetition-penalty --presence-penalty --frequency-penalty --no-repeat-ngram-size --encoder-no-repeat-ngram-size --length-penalty --early-stopping --bad-words-ids --bad-words --allowed-token-ids --logit-bias --suppress-tokens --begin-suppress-tokens --forced-bos-token-id --forced-eos-token-id --stop --stop-token-ids --ignore-eos --logprobs --prompt-logprobs --truncate-prompt-tokens --allow-empty-prompt --include-stop-str-in-output -h --help" ;;
    "read") flags="--format --model --revision --download-dir --device --dtype --quantization --threads --connect --access-file --max-num-seqs --max-num-batched-tokens --block-size --kv-cache-memory --kv-cache-dtype --gpu-memory-utilization --enforce-eager --gemm-tuning --num-gpu-blocks-override --swap-space --preemption-mode --enable-prefix-caching --no-enable-prefix-caching --enable-encoder-cache --no-enable-encoder-cache --num-speculative-tokens --speculative-config --seed --tensor-parallel-size --tp --data-parallel-size --dp --distributed-executor-backend --hostfile --worker-program --cpu-binding --run-ahead --max-restarts --restart-window --startup-timeout --step-timeout --worker-timeout --cluster-host --cluster-port --log-level --log-format --max-new-tokens --max-tokens --max-length --min-new-tokens --min-tokens --min-length --source-lang --target-lang --task --num-beams --n --num-return-sequences --best-of --do-sample --temperature --top-k --top-p --min-p --repetition-penalty --presence-penalty --frequency-penalty --no-repeat-ngram-size --encoder-no-repeat-ngram-size --length-penalty --early-stopping --bad-words-ids --bad-words --allowed-token-ids --logit-bias --suppress-tokens --begin-suppress-tokens --forced-bos-token-id --forced-eos-token-id --stop --stop-token-ids --ignore-eos --logprobs --prompt-logprobs --truncate-prompt-tokens --allow-empty-prompt --include-stop-str-in-output -h --help" ;;
    "score") flags="--input --jsonl --source-lang --target-lang --task --no-eos --logprobs --truncate-prompt-tokens --model --revision --download-dir --device --dtype --quantization --threads --connect --access-file --max-num-seqs --max-num-batched-tokens --block-size --kv-cache-memory --kv-cache-dtype --gpu-memory-utilization --enforce-eager --gemm-tuning --num-gpu-blocks-override --swap-space --preemption-mode --enable-prefix-caching --no-enable-prefix-caching --enable-encoder-cache --no-enable-encoder-cache --num-speculative-tokens --speculative-config --seed --tensor-parallel-size --tp --data-parallel-size --dp --distributed-executor-backend --hostfile --worker-program --cpu-binding --run-ahead --max-restarts --restart-window --startup-timeout --step-timeout --worker-timeout --cluster-host --cluster-port --log-level --log-format -h --help" ;;
    "transcribe") flags="--language --timestamps --format --output-dir --model --revision --download-dir --device --dtype --quantization --threads --connect --access-file --max-num-seqs --max-num-batched-tokens --block-size --kv-cache-memory --kv-cache-dtype --gpu-memory-utilization --enforce-eager --gemm-tuning --num-gpu-blocks-override --swap-space --preemption-mode --enable-prefix-caching --no-enable-prefix-caching --enable-encoder-cache --no-enable-encoder-cache --num-speculative-tokens --speculative-config --seed --tensor-parallel-size --tp --data-parallel-size --dp --distributed-executor-backend --hostfile --worker-program --cpu-binding --run-ahead --max-restarts --restart-window --startup-timeout --step-timeout --worker-timeout --cluster-host --cluster-port --log-level --log-format --max-new-tokens --max-tokens --max-length --min-new-tokens --min-tokens --min-length --source-lang --target-lang --task --num-beams --n --num-return-sequences --best-of --do-sample --temperature --top-k --top-p --min-p --repetition-penalty --presence-penalty --frequency-penalty --no-repeat-ngram-size --encoder-no-repeat-ngram-size --length-penalty --early-stopping --bad-words-ids --bad-words --allowed-token-ids --logit-bias --suppress-tokens --begin-suppress-tokens --forced-bos-token-id --forced-eos-token-id --stop --stop-token-ids --ignore-eos --logprobs --prompt-logprobs --truncate-prompt-tokens --allow-empty-prompt --include-stop-str-in-output -h --help" ;;
    "serve") flags="--model --revision --download-dir --device --dtype --quantization --threads --host --client-port --max-requests --max-queue-time --orphan-timeout --drain-timeout --port --no-http --served-model-name --api-key --api-key-file --ssl-certfile --ssl-keyfile --allowed-origins --prompt-template --http-threads --max-http-prompts --max-connections --max-body-size --max-body-memory --max-header-size --request-timeout --keep-alive-timeout --header-timeout --body-timeout --write-timeout --disable-access-log --max-num-seqs --max-num-batched-tokens --block-size --kv-cache-memory --kv-cache-dtype --gpu-memory-utilization --enforce-eager --gemm-tuning --num-gpu-blocks-override --swap-space --preemption-mode --enable-prefix-caching --no-enable-prefix-caching --enable-encoder-cache --no-enable-encoder-cache --num-speculative-tokens --speculative-config --seed --tensor-parallel-size --tp --data-parallel-size --dp --distributed-executor-backend --hostfile --worker-program --cpu-binding --run-ahead --max-restarts --restart-window --startup-timeout --step-timeout --worker-timeout --cluster-host --cluster-port --log-level --log-format --config -h --help" ;;
    "worker") flags="--connect --access-file --worker-timeout --cpu-binding --replica --replicas --rank --ranks --generation --crash-directory --mpi --log-level --log-format -h --help" ;;
    "bench") flags="serve throughput latency -h --help" ;;
    "tokenize") flags="--model --revision --download-dir --input --lines --jsonl --source-lang --no-special-tokens -h --help" ;;
    "encode") flags="--input --lines --jsonl --source-lang --target-lang --task --pooling --format --output --max-num-batched-tokens --model --revision --download-dir --device --dtype --quantization --threads -h --help" ;;
    "inspect") flags="--model --revision --download-dir --json -h --help" ;;
    "bench serve") flags="--base-url --backend --endpoint-type --endpoint --model --api-key --header --ca-cert --insecure --request-timeout --dataset-path --random-input-len --input-len --random-output-len --output-len --random-range-ratio --random-vocab --random-audio-len --num-prompts --seed --extra-body --request-rate --burstiness --max-concurrency --num-warmups --metric-percentiles --save-result --goodput --plot -h --help" ;;
    "bench throughput") flags="--model --revision --download-dir --device --dtype --quantization --threads --connect --access-file --max-num-seqs --max-num-batched-tokens --block-size --kv-cache-memory --kv-cache-dtype --gpu-memory-utilization --enforce-eager --gemm-tuning --num-gpu-blocks-override --swap-space --preemption-mode --enable-prefix-caching --no-enable-prefix-caching --enable-encoder-cache --no-enable-encoder-cache --num-speculative-tokens --speculative-config --seed --tensor-parallel-size --tp --data-parallel-size --dp --distributed-executor-backend --hostfile --worker-program --cpu-binding --run-ahead --max-restarts --restart-window --startup-timeout --step-timeout --worker-timeout --cluster-host --cluster-port --log-level --log-format --dataset-path --random-input-len --input-len --random-output-len --output-len --random-range-ratio --random-vocab --extra-body --num-prompts --metric-percentiles --save-result --plot -h --help" ;;
    "bench latency") flags="--model --revision --download-dir --device --dtype --quantization --threads --connect --access-file --max-num-seqs --max-num-batched-tokens --block-size --kv-cache-memory --kv-cache-dtype --gpu-memory-utilization --enforce-eager --gemm-tuning --num-gpu-blocks-override --swap-space --preemption-mode --enable-prefix-caching --no-enable-prefix-caching --enable-encoder-cache --no-enable-encoder-cache --num-speculative-tokens --speculative-config --seed --tensor-parallel-size --tp --data-parallel-size --dp --distributed-executor-backend --hostfile --worker-program --cpu-binding --run-ahead --max-restarts --restart-window --startup-timeout --step-timeout --worker-timeout --cluster-host --cluster-port --log-level --log-format --dataset-path --random-input-len --input-len --random-output-len --output-len --random-range-ratio --random-vocab --extra-body --batch-size --num-prompts --num-iters --num-iters-warmup --metric-percentiles --save-result -h --help" ;;
  esac
  COMPREPLY=($(compgen -W "$flags" -- "$cur"))
  [[ $cur == -* ]] || COMPREPLY+=($(compgen -f -- "$cur"))
}
complete -o filenames -F _tandem tandem
