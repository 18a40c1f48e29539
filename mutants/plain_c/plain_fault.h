/* Faults: ways in which this library can be wrong. plain_faults.def lists them, with the reports they stand
 * for.
 *
 * A fault sits at one place in the sources, where the line asks PLAIN_HAS(NAME), or in plain_wrong.c. Which
 * one is there is decided
 *  - when the library is compiled: -DSINKTRAP_FAULT=NAME (without it none: PLAIN_HAS is then 0 and the
 * compiler removes the branch), or
 *  - with -DPLAIN_SELECTABLE while it runs, by the variables plain_selected and plain_also of plain_select.c:
 *    a library may have two.
 *
 * The kind `equivalent` is for differences that no legal test can see; they have to survive. The proofs:
 *  - collapse_compares_neighbours: copies 0..e-1 equal copy 0 when copy e is the first unlike copy e-1, and
 * the other way round; so both name the same first expert, and both accept when all copies are equal.
 *  - sums_descending: sections 5 and 6 of CONTRACT.md allow any order of the f32 sums; lattice sums are exact
 *    in every order, and the bound gamma_k is one of every order.
 *  - update_repeats_every_slot_id: deriving reads the pool and writes operands only, so the second time
 * writes the same bits to the same place. */
#ifndef PLAIN_FAULT_H
#define PLAIN_FAULT_H

#define X(NAME, kind, stage, what, report) PLAIN_FAULT_##NAME,
enum plain_fault {
#include "plain_faults.def"
  PLAIN_FAULT_COUNT
};
#undef X

#ifndef SINKTRAP_FAULT
#define SINKTRAP_FAULT none
#endif
/* Two steps, so that SINKTRAP_FAULT is expanded before it is joined. */
#define PLAIN_JOIN_(a, b) a##b
#define PLAIN_JOIN(a, b) PLAIN_JOIN_(a, b)
#define PLAIN_CHOSEN PLAIN_JOIN(PLAIN_FAULT_, SINKTRAP_FAULT)

#ifdef PLAIN_SELECTABLE
extern int plain_selected, plain_also;
#define PLAIN_HAS(NAME) (plain_selected == (int)PLAIN_FAULT_##NAME || plain_also == (int)PLAIN_FAULT_##NAME)
#else
#define PLAIN_HAS(NAME) ((int)PLAIN_CHOSEN == (int)PLAIN_FAULT_##NAME)
#endif

#endif
