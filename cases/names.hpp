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
inline const std::vector<std::string_view> steps = {
    "bind",  "rebind_other", "rebind_invalid", "rebind_strided", "rebind_same",
    "write", "load",         "unload",         "update",         "forward"};

// Keys of each kind, in the order of `kinds`.
inline constexpr std::string_view layer_fields =
    "n H F R S layout w13 type gammas ranks fill put schedule seed";
inline constexpr std::string_view layer_fields_without_w13 =
    "n H F R S layout type ranks fill put schedule seed";
inline constexpr std::string_view layout_fields =
    "n H F profile gate_up_lora_a gate_up_lora_b down_lora_a down_lora_b";
inline constexpr std::string_view forward_fields = "T slots tp";
inline constexpr std::string_view state_fields = "steps";
inline constexpr std::string_view pack_fields = "slot r tp tp_rank factors scaling";
inline constexpr std::string_view shard_fields = "tp";
// What can stand behind the extents of a buffer, after '/'.
inline const std::vector<std::string_view> buffer_suffixes = {"type", "strides", "device", "at", "offset"};
inline constexpr std::string_view no_extents = "scalar", all_slots = "all", no_slots = "none";

}  // namespace sinktrap::words
