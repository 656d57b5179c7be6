// The table, by subject. A note says what is not built, or what needs no flag here.
#include "launcher/usage/foreign_flags.h"

#include <algorithm>
#include <string>
#include <utility>

namespace tandem::launcher {
namespace {

constexpr std::string_view kNotBuilt = "it is not built here";
constexpr std::string_view kNoNeed = "it needs no flag here";
constexpr std::string_view kDecoderOnly =
    "it is for decoder-only models; the models here have an encoder";
constexpr std::string_view kConstrained =
    "a request asks for it: guided_json, guided_regex, guided_choice or guided_grammar";
constexpr std::string_view kOwnCode = "code of a checkpoint is never run";
constexpr std::string_view kLines = "lines of subtitles are the model's segments here";
constexpr std::string_view kDiarize = "it is not built here: speakers are not told apart";
constexpr std::string_view kInFormat = "the format is said by --format";

constexpr std::pair<std::string_view, std::string_view> kForeignCommands[] = {
    {"run complete completion infer inference predict query ask",
     "`tandem generate MODEL TEXT` computes one, `tandem serve MODEL` serves"},
    {"chat", "the models here answer a text, and hold no conversation: tandem generate, or serve"},
    {"pull download fetch install get",
     "models come the first time that they are used; `tandem inspect MODEL` downloads and checks"},
    {"convert quantize quantise export",
     "checkpoints are read as they are; --dtype int8 quantizes them while they load"},
    {"summary summaries sum tldr", "did you mean summarize?"},
    {"translation trans", "did you mean translate?"},
    {"asr stt whisper speech listen subtitles", "did you mean transcribe?"},
    {"ocr caption", "did you mean read?"},
    {"embedding embeddings vectors", "did you mean embed?"},
    {"start up launch api openai", "did you mean serve?"},
    {"show info list ls ps models", "did you mean inspect?"},
    {"benchmark perf", "did you mean bench?"},
};

constexpr ForeignFlag kForeign[] = {
    // Model and device
    {"--model-path --model-dir --model-id --model-name-or-path --pretrained-model-name-or-path "
     "--ckpt -m",
     "--model", ""},
    {"--cache-dir --hf-cache", "--download-dir", ""},
    {"--model-revision --code-revision --tokenizer-revision", "--revision", ""},
    {"--torch-dtype --compute-type --precision --data-type --fp16 --bf16 --half", "--dtype", ""},
    {"--load-in-8bit --load-in-4bit --int8", "--dtype --quantization", "as in --dtype int8"},
    {"--quantize --weight-quantization -q", "--quantization --dtype", ""},
    {"--device-index --device-map --gpu --gpu-id --gpus", "--device", "as in --device cuda:1"},
    {"--no-gpu -ng --cpu --use-cpu", "--device", "as in --device cpu"},
    {"--n-gpu-layers --gpu-layers -ngl", "--device",
     "a model lies on one device as a whole, or is shared by --tensor-parallel-size"},
    {"--cpu-threads --intra-threads --num-threads --omp-num-threads --nthreads -t", "--threads",
     ""},
    {"--inter-threads --num-workers --processors -p", "--data-parallel-size", ""},
    {"--trust-remote-code", "", kOwnCode},
    {"--load-format --config-format --hf-config-path --hf-overrides --tokenizer "
     "--tokenizer-mode --skip-tokenizer-init --model-impl --convert --runner --safetensors",
     "", "a checkpoint is read as its own files say"},
    {"--hf-token --use-auth-token", "", "the token is the variable HF_TOKEN"},
    {"--local-files-only --offline", "", "set the variable HF_HUB_OFFLINE=1"},
    {"--attn-implementation --flash-attn --use-flash-attention -fa "
     "--compilation-config --optimization-level -O --use-v2-block-manager",
     "", kNoNeed},
    {"--enable-lora --max-cpu-loras --lora-dtype --fully-sharded-loras", "", kNoNeed},
    {"--lora-adapters --lora-paths --lora-path --lora-dir --peft-model --adapter --adapters",
     "--lora-modules", "as in --lora-modules NAME=DIR"},
    {"--lora-name --adapter-name --adapter-id", "--lora", ""},
    // Engine
    {"--batch-size --max-batch-size --max-concurrent-requests --parallel -np --max-running-seqs",
     "--max-num-seqs", ""},
    {"--max-batch-prefill-tokens --max-batch-total-tokens --batch-type --ubatch-size",
     "--max-num-batched-tokens", ""},
    {"--max-model-len --ctx-size --max-seq-len --max-input-tokens --max-input-length "
     "--max-total-tokens --max-source-length -c",
     "--truncate-prompt-tokens",
     "the checkpoint says how much the model takes; a request cuts its input by "
     "truncate_prompt_tokens"},
    {"--num-shard --tensor-parallel --world-size", "--tensor-parallel-size", ""},
    {"--pipeline-parallel --num-stages", "--pipeline-parallel-size", ""},
    {"--expert-parallel-size --enable-expert-parallel --context-parallel-size",
     "--tensor-parallel-size", "a model is shared by heads and by layers only"},
    {"--num-replicas --replica-count", "--data-parallel-size", ""},
    {"--enable-chunked-prefill --scheduling-policy --async-scheduling --num-scheduler-steps "
     "--long-prefill-token-threshold --disable-sliding-window --scheduler-cls",
     "", kNoNeed},
    {"--enable-deterministic-inference --deterministic --vllm-batch-invariant", "--batch-invariant",
     ""},
    {"--disable-cuda-graph --no-cuda-graph", "--enforce-eager", ""},
    {"--cpu-offload-gb --kv-cache-memory-bytes --kv-transfer-config", "--kv-cache-memory", ""},
    {"--mem-fraction-static --gpu-memory-fraction", "--gpu-memory-utilization", ""},
    {"--speculative-model --assistant-model --draft --model-draft", "--draft-model", ""},
    {"--speculative-num-draft-tokens --num-assistant-tokens --prompt-lookup-num-tokens",
     "--num-speculative-tokens", ""},
    // Server
    {"--hostname --listen --bind --address --server-address", "--host", ""},
    {"--http-port --server-port", "--port", ""},
    {"--model-alias --alias --model-name", "--served-model-name", ""},
    {"--ssl-cert-file --tls-cert --certfile --ssl-ca-certs", "--ssl-certfile", ""},
    {"--ssl-key-file --tls-key --keyfile", "--ssl-keyfile", ""},
    {"--cors-allow-origin --cors-origins --allow-origins", "--allowed-origins", ""},
    {"--allow-credentials --allowed-methods --allowed-headers --middleware --response-role", "",
     kNoNeed},
    {"--uvicorn-log-level --log-config-file --verbose --log-verbosity -v", "--log-level", ""},
    {"--disable-log-requests --disable-uvicorn-access-log --no-access-log", "--disable-access-log",
     ""},
    {"--disable-log-stats --show-hidden-metrics-for-version", "", "/metrics has the statistics"},
    {"--collect-detailed-traces --otlp-endpoint", "--otlp-traces-endpoint", ""},
    {"--workers --api-server-count --http-workers", "--http-threads", ""},
    {"--max-waiting-requests --max-queue-size --queue-size", "--max-requests", ""},
    {"--chat-template", "--prompt-template", ""},
    {"--enable-auto-tool-choice --tool-call-parser --reasoning-parser --jinja", "", kDecoderOnly},
    {"--guided-decoding-backend --structured-outputs-config --disable-any-whitespace", "", kNoNeed},
    {"--generation-config --override-generation-config", "",
     "the checkpoint's generation_config.json counts"},
    {"--timeout --request-timeout-s", "--request-timeout", ""},
    {"--url --server --endpoint-url", "--connect --base-url", ""},
    // Generation
    {"--prompt --text --texts --query", "", "texts are arguments without a flag"},
    {"--beam-size --beams --beam -bs", "--num-beams", ""},
    {"--num-hypotheses --nbest --num-outputs", "--n", ""},
    {"--tgt-lang --tgt --trg-lang --target-language --to --forced-bos-token", "--target-lang", ""},
    {"--target -tl", "--to --target-lang", ""},
    {"--src-lang --src --source-language --from", "--source-lang", ""},
    {"--max-decoding-length --max-new-token --max-gen-len --max-target-length --n-predict "
     "--max-output-tokens --max-generate-tokens -n",
     "--max-new-tokens", ""},
    {"--min-decoding-length --min-target-length", "--min-length", ""},
    {"--sampling-topk", "--top-k", ""},
    {"--sampling-topp", "--top-p", ""},
    {"--sampling-temperature --temp", "--temperature", ""},
    {"--length-penalty-weight --lenpen -lp", "--length-penalty", ""},
    {"--repeat-penalty --repetition-penalty-weight", "--repetition-penalty", ""},
    {"--suppress-sequences --suppress-words", "--bad-words", ""},
    {"--end-token --eos-token-id", "--stop-token-ids", ""},
    {"--stop-strings --stop-words --stop-sequences", "--stop", ""},
    {"--sample", "--do-sample", ""},
    {"--diversity-penalty --num-beam-groups --penalty-alpha --coverage-penalty --patience "
     "--guidance-scale --typical-p --epsilon-cutoff --eta-cutoff --constraints "
     "--prefix-bias-beta "
     "--replace-unknowns --use-vmap --dola-layers",
     "", kNotBuilt},
    {"--grammar --grammar-file -j --json-schema --regex --choice --guided-json --guided-regex "
     "--guided-choice --guided-grammar",
     "", kConstrained},
    {"--disable-unk", "--suppress-tokens", "name the token's id"},
    {"--input-file --src-file --text-file --file -i -f", "--input",
     "files of sound and images are arguments without a flag"},
    {"--output --output-file -of", "--output --output-dir", "or redirect standard output"},
    // Speech
    {"--output-directory -o", "--output-dir", ""},
    {"--output-format --format-output", "--format", ""},
    {"--output-txt -otxt", "--format", kInFormat},
    {"--output-srt -osrt", "--format", "as in --format srt"},
    {"--output-vtt -ovtt", "--format", "as in --format vtt"},
    {"--output-json --output-json-full -oj -ojf", "--format", "as in --format verbose_json"},
    {"--output-words -owts", "--highlight-words", "as in --format srt --highlight-words"},
    {"--output-csv --output-lrc -ocsv -olrc", "--format",
     "there are text, srt, vtt, tsv, json and verbose_json"},
    {"--lang --spoken-language -l", "--language", ""},
    {"--detect-language -dl", "--language", "without it the model finds the language out"},
    {"--translate -tr", "--task", "as in --task translate"},
    {"--initial-prompt --prompt-text", "--prompt", ""},
    {"--carry-initial-prompt --prompt-reset-on-temperature --max-context -mc",
     "--condition-on-prev-tokens", ""},
    {"--condition-on-previous-text", "--condition-on-prev-tokens", ""},
    {"--vad", "--vad-filter", ""},
    {"--vad-method --vad-parameters", "--vad-filter", "and the flags --vad-…"},
    {"--vad-onset -vt", "--vad-threshold", ""},
    {"--vad-offset", "--vad-neg-threshold", ""},
    {"-vm", "--vad-model", ""},
    {"--max-words-per-line --max-line-width --max-line-count --prepend-punctuations "
     "--append-punctuations --split-on-word --max-len -sow -ml",
     "--highlight-words", kLines},
    {"--dtw --word-thold -wt", "--word-timestamps", ""},
    {"--return-timestamps --with-timestamps --print-timestamps", "--timestamps", ""},
    {"--without-timestamps --no-timestamps -nt", "--timestamps",
     "without it there are none in the text"},
    {"--diarize --tinydiarize --speaker-diarization --min-speakers --max-speakers -di -tdrz", "",
     kDiarize},
    {"--temperature-increment-on-fallback --temperature-inc -tpi", "--temperature-fallback",
     "as in --temperature-fallback 0,0.2,0.4"},
    {"--no-fallback -nf", "--temperature-fallback", "without it nothing is decoded again"},
    {"--log-prob-threshold --logprob-thold -lpt", "--logprob-threshold", ""},
    {"--no-speech-thold -nth", "--no-speech-threshold", ""},
    {"--entropy-thold -et", "--compression-ratio-threshold", ""},
    {"--chunk-length --chunk-size", "--chunk-length-s", ""},
    {"--stride-length", "--stride-length-s", ""},
    {"--offset-t --duration -ot -d", "--clip-timestamps", "in seconds, as in 10,70"},
    {"--offset-n "
     "--audio-ctx --max-initial-timestamp --suppress-nst --suppress-blank -on -ac -sns",
     "", kNotBuilt},
    {"--print-progress --print-colors --print-special --no-prints -pp -pc -ps", "",
     "progress is shown on a terminal"},
    // Load generators
    {"--requests --num-requests --total-requests", "--num-prompts", ""},
    {"--concurrency --num-users --users", "--max-concurrency", ""},
    {"--rate --rps --qps", "--request-rate", ""},
    {"--dataset --dataset-name", "--dataset-path", ""},
    {"--tokens-per-request --prompt-tokens", "--random-input-len", ""},
};

}  // namespace

std::string_view foreign_command(std::string_view name) {
  for (const auto& [names, note] : kForeignCommands)
    for (size_t at = 0; at < names.size();) {
      const size_t end = std::min(names.find(' ', at), names.size());
      if (names.substr(at, end - at) == name) return note;
      at = end + 1;
    }
  return {};
}

std::span<const ForeignFlag> foreign_flags() { return kForeign; }

const ForeignFlag* find_foreign_flag(std::string_view name) {
  std::string wanted(name);
  std::replace(wanted.begin(), wanted.end(), '_', '-');
  for (const ForeignFlag& flag : foreign_flags()) {
    for (size_t at = 0; at < flag.names.size();) {
      const size_t end = std::min(flag.names.find(' ', at), flag.names.size());
      if (flag.names.substr(at, end - at) == wanted) return &flag;
      at = end + 1;
    }
  }
  return nullptr;
}

}  // namespace tandem::launcher
