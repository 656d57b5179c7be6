// A row for each format: a file that only it has, what it is called, and what to do.
#include "models/checkpoint/other_formats.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/json.h"
#include "base/strings/printable.h"

namespace tandem {
namespace fs = std::filesystem;
namespace {

struct Format {
  const char* file;  // its name, or "*" and the end of it
  const char* what;
  const char* advice;
};

constexpr const char* kAdapter = "adapter_config.json";
constexpr const char* kSaveAgain =
    "load it in transformers and save_pretrained() it as safetensors, or take the original model";

// The first that fits counts.
constexpr Format kFormats[] = {
    {kAdapter, "an adapter of PEFT, not a model",
     "serve its model with --lora-modules NAME=DIR (docs/lora.md), or merge it into the model: "
     "PeftModel.from_pretrained(…).merge_and_unload().save_pretrained(…)"},
    {"adapter_model.safetensors", "an adapter of PEFT, not a model",
     "serve its model with --lora-modules NAME=DIR (docs/lora.md), or merge it into the model: "
     "PeftModel.from_pretrained(…).merge_and_unload().save_pretrained(…)"},
    {"*.incomplete", "a download that has not ended", "run it again"},
    {"*.crdownload", "a download that has not ended", "run it again"},
    {"*.part", "a download that has not ended", "run it again"},
    {"*.aria2", "a download that has not ended", "run it again"},
    {"*.gguf", "a GGUF file of llama.cpp", "take the original model, or convert it to safetensors"},
    {"*.ggml", "a GGML file of llama.cpp", "take the original model, or convert it to safetensors"},
    {"model.bin", "a model of CTranslate2, converted for faster-whisper or the like",
     "take the original model that it was converted from"},
    {"flax_model.msgpack", "a model of Flax (JAX)",
     "load it with transformers 4 (from_flax=True) and save_pretrained() it"},
    {"flax_model.msgpack.index.json", "a model of Flax (JAX)",
     "load it with transformers 4 (from_flax=True) and save_pretrained() it"},
    {"tf_model.h5", "a model of TensorFlow",
     "load it with transformers 4 (from_tf=True) and save_pretrained() it"},
    {"tf_model.h5.index.json", "a model of TensorFlow",
     "load it with transformers 4 (from_tf=True) and save_pretrained() it"},
    {"saved_model.pb", "a SavedModel of TensorFlow", kSaveAgain},
    {"*.tflite", "a model of TensorFlow Lite", kSaveAgain},
    {"*.onnx", "a model of ONNX", "take the original model that it was exported from"},
    {"openvino_encoder_model.xml", "a model of OpenVINO",
     "take the original model that it was exported from"},
    {"openvino_model.xml", "a model of OpenVINO",
     "take the original model that it was exported from"},
    {"*.mlpackage", "a model of Core ML", "take the original model that it was exported from"},
    {"rust_model.ot", "a model of rust-bert", kSaveAgain},
    {"zero_to_fp32.py", "a checkpoint of DeepSpeed", "run zero_to_fp32.py, which makes one file"},
    {"*.distcp", "a distributed checkpoint of torch", "consolidate it into safetensors"},
    {"weights.npz", "a model of MLX", "take the original model that it was converted from"},
    {"*.npz", "a model of Marian's own format", "convert it with transformers' convert_marian"},
    {"dict.txt", "a model of fairseq", "convert it with transformers' conversion script"},
    {"*.nemo", "a model of NeMo", "convert it to transformers' format"},
    {"model.fp16.safetensors", "a variant (fp16), which transformers loads only when told to",
     "rename the file to model.safetensors"},
    {"*.safetensors", "weights under a name that transformers does not look for",
     "rename the file to model.safetensors"},
    {"*.pt", "weights of torch under a name that transformers does not look for",
     "convert it with transformers' conversion script"},
    {"*.pth", "weights of torch under a name that transformers does not look for",
     "convert it with transformers' conversion script"},
    {"*.ckpt", "a checkpoint of a trainer", "convert it with transformers' conversion script"},
};

// nullptr: no name of the directory's is of the format.
const std::string* file_of(const Format& format, const std::vector<std::string>& names) {
  const std::string_view pattern = format.file;
  const auto it = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
    return pattern[0] == '*' ? name.ends_with(pattern.substr(1)) : name == pattern;
  });
  return it == names.end() ? nullptr : &*it;
}

// " of NAME", where an adapter's configuration says so.
std::string base_of_adapter(const fs::path& directory) {
  try {
    const nlohmann::json config = load_json(directory / kAdapter);
    if (!config.is_object()) return "";
    const auto base = config.find("base_model_name_or_path");
    if (base == config.end() || !base->is_string()) return "";
    return "; its model is " + in_quotes(base->get<std::string>());
  } catch (const InputError&) {
    return "";
  }
}

}  // namespace

std::string other_format(const std::vector<std::string>& names) {
  for (const Format& format : kFormats)
    if (const std::string* file = file_of(format, names))
      return std::string(format.what) + " (" + printable(*file) + "): " + format.advice;
  return "";
}

std::string other_format(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  std::string out = other_format(names);
  const bool adapter = std::binary_search(names.begin(), names.end(), kAdapter);
  if (adapter && !out.empty()) out += base_of_adapter(directory);
  // Exports often lie in a folder of their own.
  if (out.empty() && std::binary_search(names.begin(), names.end(), "onnx") &&
      fs::is_directory(directory / "onnx", error))
    return "a model of ONNX (onnx/): take the original model that it was exported from";
  return out;
}

}  // namespace tandem
