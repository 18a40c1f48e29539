/* The fault that a library is built with: -DSINKTRAP_FAULT=NAME, one of PLAIN_FAULTS; without it, none.
 *
 * Each is a bug that really happened in a public implementation, or a kind next to one. It sits at one place
 * in the sources, where the line asks PLAIN_HAS(NAME); the compiler removes the branch that is not taken. */
#ifndef PLAIN_FAULT_H
#define PLAIN_FAULT_H

/* X(NAME, what is wrong). mutants/CMakeLists.txt reads the names from here: one to a line. */
#define PLAIN_FAULTS(X)                                                                 \
  X(none, "the honest implementation")                                                  \
  X(up_half_at_r, "load writes the up half of gate_up_lora_a at row r instead of R")    \
  X(crash_in_forward, "forward writes through a null pointer")                          \
  X(hang_in_forward, "forward never returns")                                           \
  X(wrong_version, "the table carries another interface version")                       \
  X(up_reads_gate_bridge, "the up half of the delta contracts with the gate's bridge")  \
  X(expert_zero_for_all, "gate_up_lora_b is read at expert 0 for every expert")         \
  X(stale_slot, "update derives nothing: forward keeps serving the slot's old adapter") \
  X(no_gamma, "the activation is not weighted by the token's gammas")                   \
  X(tail_not_zeroed, "load leaves what was in the rank tails")                          \
  X(accept_mixed_layout, "validation lacks check 3, layout_mismatch")                   \
  X(uninitialised_base_rows, "rows of out of base-only tokens are not written")         \
  X(writes_past_end, "forward writes one element behind out")                           \
  X(modifies_input, "forward writes into x")                                            \
  X(last_rank_column_lost, "the delta leaves out column R - 1 of gate_up_lora_b")

#define PLAIN_FAULT_ENUM(NAME, what) PLAIN_FAULT_##NAME,
enum plain_fault { PLAIN_FAULTS(PLAIN_FAULT_ENUM) PLAIN_FAULT_COUNT };
#undef PLAIN_FAULT_ENUM

#ifndef SINKTRAP_FAULT
#define SINKTRAP_FAULT none
#endif
/* Two steps, so that SINKTRAP_FAULT is expanded before it is joined or quoted. */
#define PLAIN_JOIN_(a, b) a##b
#define PLAIN_JOIN(a, b) PLAIN_JOIN_(a, b)
#define PLAIN_QUOTE_(a) #a
#define PLAIN_QUOTE(a) PLAIN_QUOTE_(a)

#define PLAIN_SELECTED PLAIN_JOIN(PLAIN_FAULT_, SINKTRAP_FAULT)
#define PLAIN_HAS(NAME) (PLAIN_SELECTED == PLAIN_FAULT_##NAME)

#endif
