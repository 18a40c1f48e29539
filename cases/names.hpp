// The words of the case language, in one table: parser, printer and dictionaries read them from here.
#pragma once
#include <string_view>
#include <vector>

namespace sinktrap::words {

inline const std::vector<std::string_view> kinds = {"layout", "forward", "state", "pack", "shard"};
inline const std::vector<std::string_view> expert_layouts = {"shared", "per_expert"};
inline const std::vector<std::string_view> w13_layouts = {"interleaved", "contiguous"};
inline const std::vector<std::string_view> storage_types = {"bf16", "f16", "f32"};
inline const std::vector<std::string_view> fills = {"lattice", "dense", "zero", "subnormal", "huge", "sweep"};
inline const std::vector<std::string_view> puts = {"nan", "inf", "-inf", "huge"};
inline const std::vector<std::string_view> put_tensors = {
    "x", "gammas", "w13", "w2", "gate_up_lora_a", "gate_up_lora_b", "down_lora_a", "down_lora_b"};
inline const std::vector<std::string_view> factors = {"stacked", "separate", "per_expert"};
inline const std::vector<std::string_view> profiles = {"sglang", "strict"};
inline const std::vector<std::string_view> steps = {"bind",           "rebind_other", "rebind_invalid",
                                                    "rebind_strided", "write",        "load",
                                                    "unload",         "update",       "forward"};

}  // namespace sinktrap::words
