"""Shapes of models that read images or generate nothing, for make_random_families.py and compare_requests.py."""

BART_TOKENS = {"bos": 0, "pad": 1, "eos": 2, "unk": 3}
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}


def square(kind, side, resample, **more):
    return {"image_processor_type": kind, "do_resize": True, "size": {"height": side, "width": side}, "resample": resample,
            "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, **IMAGENET, **more}


def vit_gpt2(transformers):
    """nlpconnect/vit-gpt2-image-captioning"""
    decoder = transformers.GPT2Config(is_decoder=True, add_cross_attention=True)
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        transformers.ViTConfig(), decoder, decoder_start_token_id=50256, eos_token_id=50256, bos_token_id=50256, pad_token_id=50256,
        vocab_size=decoder.vocab_size)
    return transformers.VisionEncoderDecoderModel, config, {"eos": 50256, "unk": 50255}


def trocr_base(transformers):
    """microsoft/trocr-base-printed"""
    encoder = transformers.ViTConfig(image_size=384, qkv_bias=False)
    decoder = transformers.TrOCRConfig(is_decoder=True, add_cross_attention=True, cross_attention_hidden_size=768,
                                       tie_word_embeddings=False)
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        encoder, decoder, decoder_start_token_id=2, eos_token_id=2, bos_token_id=0, pad_token_id=1, vocab_size=decoder.vocab_size)
    return transformers.VisionEncoderDecoderModel, config, BART_TOKENS


def swin_and_mbart(transformers, image_size, window, vocabulary, positions, start):
    encoder = transformers.DonutSwinConfig(image_size=image_size, embed_dim=128, depths=[2, 2, 14, 2], num_heads=[4, 8, 16, 32],
                                           window_size=window)
    decoder = transformers.MBartConfig(
        vocab_size=vocabulary, d_model=1024, decoder_layers=4, decoder_attention_heads=16, decoder_ffn_dim=4096,
        max_position_embeddings=positions, is_decoder=True, add_cross_attention=True, scale_embedding=True, is_encoder_decoder=False,
        tie_word_embeddings=False)
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        encoder, decoder, decoder_start_token_id=start, eos_token_id=2, bos_token_id=0, pad_token_id=1, vocab_size=vocabulary)
    return transformers.VisionEncoderDecoderModel, config, BART_TOKENS


def nougat_small(transformers):
    """facebook/nougat-small"""
    return swin_and_mbart(transformers, [896, 672], window=7, vocabulary=50000, positions=3584, start=0)


def donut_cord(transformers):
    """naver-clova-ix/donut-base-finetuned-cord-v2"""
    return swin_and_mbart(transformers, [1280, 960], window=10, vocabulary=57580, positions=768, start=57579)


def udop_6(transformers):
    """microsoft/udop-large with 6 of its 24 layers on either side"""
    config = transformers.UdopConfig(num_layers=6, num_decoder_layers=6, image_size=224, patch_size=16, num_channels=3,
                                     relative_bias_args=[{"type": "1d"}, {"type": "horizontal"}, {"type": "vertical"}],
                                     decoder_start_token_id=0, tie_word_embeddings=True)
    return transformers.UdopForConditionalGeneration, config, {"pad": 0, "eos": 1, "unk": 2}


def t5gemma2_image_4(transformers):
    """google/t5gemma-2-270m-270m with 4 of its image encoder's 27 layers"""
    text = dict(vocab_size=262144, hidden_size=640, intermediate_size=2048, num_hidden_layers=18, num_attention_heads=4,
                num_key_value_heads=1, head_dim=256, query_pre_attn_scalar=256, sliding_window=512, pad_token_id=0, bos_token_id=2,
                eos_token_id=1, layer_types=["full_attention" if i % 6 == 5 else "sliding_attention" for i in range(18)],
                rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
                                 "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})
    vision = dict(model_type="siglip_vision_model", hidden_size=1152, intermediate_size=4304, num_hidden_layers=4, num_attention_heads=16,
                  image_size=896, patch_size=14, vision_use_head=False)
    config = transformers.T5Gemma2Config(
        encoder={"text_config": text, "vision_config": vision, "mm_tokens_per_image": 256, "image_token_index": 256001},
        decoder=text, image_token_index=256001, vocab_size=262144, pad_token_id=0, bos_token_id=2, eos_token_id=1)
    return transformers.T5Gemma2ForConditionalGeneration, config, {"pad": 0, "eos": 1, "bos": 2, "unk": 3}


def blip_base(transformers):
    """Salesforce/blip-image-captioning-base"""
    text = {"num_attention_heads": 12, "vocab_size": 30524, "bos_token_id": 30522, "eos_token_id": 2, "sep_token_id": 102}
    config = transformers.BlipConfig(text_config=text, vision_config={"image_size": 384})
    return transformers.BlipForConditionalGeneration, config, {"pad": 0, "unk": 100, "eos": 102, "bos": 30522}


def pix2struct_base(transformers):
    """google/pix2struct-base"""
    config = transformers.Pix2StructConfig(text_config={"use_cache": True}, vision_config={}, is_vqa=False, is_encoder_decoder=True,
                                           decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)
    return transformers.Pix2StructForConditionalGeneration, config, {"pad": 0, "eos": 1, "unk": 2}


def florence2_base(transformers):
    """microsoft/Florence-2-base"""
    text = dict(model_type="bart", vocab_size=51290, d_model=768, encoder_layers=6, decoder_layers=6, encoder_attention_heads=12,
                decoder_attention_heads=12, encoder_ffn_dim=3072, decoder_ffn_dim=3072, max_position_embeddings=4096,
                decoder_start_token_id=2, pad_token_id=1, bos_token_id=0, eos_token_id=2, forced_eos_token_id=None)
    config = transformers.Florence2Config(text_config=text, vision_config={"projection_dim": 768}, image_token_id=51289,
                                          pad_token_id=1, bos_token_id=0, eos_token_id=2)
    return transformers.Florence2ForConditionalGeneration, config, BART_TOKENS


def bart_classify(transformers):
    """BART-base with a head of three labels"""
    config = transformers.BartConfig(vocab_size=50265, d_model=768, encoder_layers=6, decoder_layers=6, encoder_attention_heads=12,
                                     decoder_attention_heads=12, encoder_ffn_dim=3072, decoder_ffn_dim=3072, num_labels=3)
    return transformers.BartForSequenceClassification, config, BART_TOKENS


def t5_encoder(transformers):
    """the encoder of google/t5-v1_1-base"""
    config = transformers.T5Config(vocab_size=32128, d_model=768, d_kv=64, d_ff=2048, num_layers=12, num_heads=12,
                                   feed_forward_proj="gated-gelu", pad_token_id=0, eos_token_id=1)
    return transformers.T5EncoderModel, config, {"pad": 0, "eos": 1, "unk": 2}


SHAPES = {"vit-gpt2": vit_gpt2, "trocr-base": trocr_base, "nougat-small": nougat_small, "blip-base": blip_base, "pix2struct-base": pix2struct_base,
          "florence2-base": florence2_base, "donut-cord": donut_cord, "udop-6": udop_6, "t5gemma2-image-4": t5gemma2_image_4,
          "bart-classify": bart_classify, "t5-encoder": t5_encoder}
PREPROCESSORS = {
    "vit-gpt2": square("ViTImageProcessor", 224, 2),
    "trocr-base": square("ViTImageProcessor", 384, 2, image_mean=[0.5] * 3, image_std=[0.5] * 3),
    "nougat-small": square("NougatImageProcessor", 896, 2, size={"height": 896, "width": 672}, do_crop_margin=False, do_thumbnail=True,
                           do_align_long_axis=False, do_pad=True),
    "donut-cord": square("DonutImageProcessor", 0, 2, size={"height": 1280, "width": 960}, do_thumbnail=True, do_align_long_axis=False,
                         do_pad=True, image_mean=[0.5] * 3, image_std=[0.5] * 3),
    "udop-6": square("LayoutLMv3ImageProcessor", 224, 2, apply_ocr=False),
    "t5gemma2-image-4": square("Gemma3ImageProcessor", 896, 2, image_mean=[0.5] * 3, image_std=[0.5] * 3, image_seq_length=256),
    "blip-base": square("BlipImageProcessor", 384, 3),
    "pix2struct-base": {"image_processor_type": "Pix2StructImageProcessor", "do_convert_rgb": True, "do_normalize": True,
                        "is_vqa": False, "max_patches": 2048, "patch_size": {"height": 16, "width": 16}},
    "florence2-base": square("CLIPImageProcessor", 768, 3, crop_size={"height": 768, "width": 768}, do_center_crop=False),
}
