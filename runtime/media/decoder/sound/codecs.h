// The containers and the compressions of sound that are read: of the hundreds that FFmpeg's
// libraries know, those that people have sound in.
#pragma once

#include <string>
#include <string_view>

namespace tandem::decoder {

// Names of libavformat's demuxers and of libavcodec's decoders, with commas between them, as its
// options `format_whitelist` and `codec_whitelist` take them.
const std::string& demuxers();
const std::string& decoders();
bool is_decoder(std::string_view name);

}  // namespace tandem::decoder
