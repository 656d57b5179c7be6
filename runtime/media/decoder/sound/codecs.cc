// The lists of what is read. A name that the installed libraries do not have is left out by them.
#include "runtime/media/decoder/sound/codecs.h"

extern "C" {
#include <libavcodec/avcodec.h>
}

#include <cstdint>

namespace tandem::decoder {

const std::string& demuxers() {
  static const std::string names =
      // of sound
      "aac,ac3,aiff,amr,amrnb,amrwb,au,caf,dts,eac3,flac,gsm,loas,mp3,mpc,mpc8,nistsphere,ogg,tta,"
      "truehd,voc,w64,wav,wv,xwma,ircam,sox,pvf,paf,avr,"
      // of films, and of sound in the same containers
      "asf,avi,flv,matroska,webm,mov,mp4,m4a,3gp,3g2,mpeg,mpegts";
  return names;
}

const std::string& decoders() {
  static const std::string names = [] {
    std::string out =
        "aac,aac_latm,ac3,eac3,alac,amrnb,amrwb,dca,flac,g723_1,gsm,gsm_ms,mlp,mp1,mp1float,mp2,"
        "mp2float,mp3,mp3float,mpc7,mpc8,nellymoser,opus,s302m,speex,truehd,tta,vorbis,wavpack,"
        "wmalossless,wmapro,wmav1,wmav2,wmavoice,adpcm_ms,adpcm_ima_wav,adpcm_ima_qt,g722,"
        "evrc,ilbc,qcelp,g726,g726le,adpcm_swf,adpcm_yamaha,adpcm_ct,adpcm_sbpro_2,adpcm_sbpro_3,"
        "adpcm_sbpro_4";
    void* at = nullptr;
    while (const AVCodec* codec = av_codec_iterate(&at))
      if (av_codec_is_decoder(codec) != 0 && std::string_view(codec->name).starts_with("pcm_"))
        out += std::string(",") + codec->name;
    return out;
  }();
  return names;
}

bool is_decoder(std::string_view name) {
  const std::string all = "," + decoders() + ",";
  return all.find("," + std::string(name) + ",") != std::string::npos;
}

}  // namespace tandem::decoder
