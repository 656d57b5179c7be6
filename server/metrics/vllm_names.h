// Metrics that vLLM has too, under its names.
#pragma once

#include <map>
#include <string>

namespace tandem::server {

// Ours → vLLM's, where the meaning is the same.
inline const std::multimap<std::string, std::string> kVllmNames{
    {"tandem:num_requests_running", "vllm:num_requests_running"},
    {"tandem:num_requests_waiting", "vllm:num_requests_waiting"},
    {"tandem:num_requests_swapped", "vllm:num_requests_swapped"},
    {"tandem:kv_cache_usage_perc", "vllm:kv_cache_usage_perc"},
    {"tandem:num_preemptions_total", "vllm:num_preemptions_total"},
    {"tandem:prefix_cache_queries_total", "vllm:prefix_cache_queries_total"},
    {"tandem:prefix_cache_hits_total", "vllm:prefix_cache_hits_total"},
    {"tandem:spec_decode_num_drafts_total", "vllm:spec_decode_num_drafts_total"},
    {"tandem:spec_decode_num_draft_tokens_total", "vllm:spec_decode_num_draft_tokens_total"},
    {"tandem:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_accepted_tokens_total"},
    {"tandem:spec_decode_num_accepted_tokens_per_pos_total",
     "vllm:spec_decode_num_accepted_tokens_per_pos_total"},
    {"tandem:prompt_tokens_total", "vllm:prompt_tokens_total"},
    {"tandem:generation_tokens_total", "vllm:generation_tokens_total"},
    {"tandem:request_success_total", "vllm:request_success_total"},
    {"tandem:time_to_first_token_seconds", "vllm:time_to_first_token_seconds"},
    {"tandem:inter_token_latency_seconds", "vllm:inter_token_latency_seconds"},
    {"tandem:time_per_output_token_seconds", "vllm:time_per_output_token_seconds"},
    {"tandem:e2e_request_latency_seconds", "vllm:e2e_request_latency_seconds"},
    {"tandem:request_queue_time_seconds", "vllm:request_queue_time_seconds"},
    {"tandem:request_prompt_tokens", "vllm:request_prompt_tokens"},
    {"tandem:request_generation_tokens", "vllm:request_generation_tokens"},
    {"tandem:time_per_output_token_seconds", "vllm:request_time_per_output_token_seconds"},
    {"tandem:request_inference_time_seconds", "vllm:request_inference_time_seconds"},
    {"tandem:request_prefill_time_seconds", "vllm:request_prefill_time_seconds"},
    {"tandem:request_decode_time_seconds", "vllm:request_decode_time_seconds"},
    {"tandem:request_params_n", "vllm:request_params_n"},
    {"tandem:request_num_preemptions", "vllm:request_num_preemptions"},
    {"tandem:iteration_tokens_total", "vllm:iteration_tokens_total"},
    {"tandem:num_requests_waiting_by_reason", "vllm:num_requests_waiting_by_reason"},
    {"tandem:cache_config_info", "vllm:cache_config_info"},
    {"tandem:request_params_max_tokens", "vllm:request_params_max_tokens"},
    {"tandem:request_max_num_generation_tokens", "vllm:request_max_num_generation_tokens"},
};

}  // namespace tandem::server
