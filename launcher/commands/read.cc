// tandem read: image files in, the text in each out.
#include <memory>
#include <optional>
#include <utility>

#include "base/json.h"
#include "launcher/commands/command.h"
#include "launcher/commands/file_arguments.h"
#include "launcher/commands/requests.h"
#include "runtime/media/image/image_file.h"
#include "runtime/protocol/options_reader.h"

namespace tandem::launcher {
namespace {

using nlohmann::json;

struct ReadOptions {
  RequestOptions requests;
  SamplingOptions sampling;
  std::vector<std::string> files;
  std::string format = "text";
  std::string prompt;
};

// Each line of the input is the path of an image.
class ImageFormat final : public RequestFormat {
 public:
  ImageFormat(bool as_json, std::string prompt, json defaults)
      : json_(as_json), prompt_(std::move(prompt)), defaults_(std::move(defaults)) {}

  JsonRequest read(const std::string& path, json& id) const override {
    id = path;
    JsonRequest request;
    proto::PromptPart& part = *request.prompt.mutable_encoder();
    if (prompt_.empty()) {
      part.set_image(read_image_file(path, "FILE"));
    } else {
      part.set_picture(read_image_file(path, "FILE"));
      part.set_text(prompt_);
    }
    part.set_field(path);
    request.options = read_options(defaults_);
    return request;
  }

  std::optional<std::string> write(const proto::RequestOutput& output,
                                   const json& id) const override {
    std::string text;
    for (const auto& c : output.outputs())
      text += (&c == &output.outputs(0) ? "" : "\n") + c.text();
    if (!json_) return text;
    json line = {{"file", id}, {"text", text}};
    if (output.outputs_size() > 0) line["token_ids"] = output.outputs(0).token_ids();
    return dump_line(line);
  }

 private:
  bool json_;
  std::string prompt_;
  json defaults_;
};

int run(ReadOptions& options) {
  options.requests.settle_model(&options.files);
  if (options.files.empty()) throw invalid_request("FILE", "is missing: an image to read");
  options.files = expand_files(options.files, image_files());
  options.requests.keep_places = options.files.size() > 1;
  if (options.format != "text" && options.format != "json")
    throw invalid_request("--format", "\"" + options.format + "\" is not one of text, json");
  options.requests.jsonl = options.format == "json";
  const ImageFormat format(options.requests.jsonl, options.prompt, options.sampling.params());
  return run_requests(options.requests, format, [&] {
    return RequestInput{nullptr, options.files, 0};
  });
}

}  // namespace

Run add_read(CLI::App& app) {
  auto options = std::make_shared<ReadOptions>();
  options->requests.command = "tandem read";
  options->requests.bar = "Reading";
  options->requests.ahead = 1;  // images take memory
  app.option_defaults()->group("Input and output");
  options->requests.engine.add_model_argument(app);
  app.add_option("FILE", options->files,
                 "Images to read: PNG, JPEG, WebP, GIF, BMP or TIFF; folders of them, patterns "
                 "such as \"scans/*.png\"; - is standard input");
  app.add_option("--format", options->format,
                 "text writes the text of each, json a line with \"file\" and \"text\"")
      ->capture_default_str();
  app.add_option("--prompt", options->prompt,
                 "A text beside each image, for models that read both: a question, or a task such "
                 "as \"<OCR>\"");
  options->requests.add(app);
  options->sampling.add(app);
  return [options] { return run(*options); };
}

}  // namespace tandem::launcher
