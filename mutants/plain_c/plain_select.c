/* The fault of a library that can have any: set when it is built, by the program around it, or, with
 * -DPLAIN_FROM_ENVIRONMENT, by the variable SINKTRAP_FAULT when the library is loaded. */
#include "plain.h"

#ifdef PLAIN_SELECTABLE
int plain_selected = PLAIN_CHOSEN;
#endif

static const char* const titles[] = {
#define X(NAME, kind, what, report) "plain_c:" #NAME,
#include "plain_faults.def"
#undef X
};

const char* plain_title(void) { return PLAIN_HAS(none) ? "plain_c" : titles[plain_selected]; }

#if defined(PLAIN_SELECTABLE) && defined(PLAIN_FROM_ENVIRONMENT)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char* const names[] = {
#define X(NAME, kind, what, report) #NAME,
#include "plain_faults.def"
#undef X
};

__attribute__((constructor)) static void select_from_environment(void) {
  const char* wanted = getenv("SINKTRAP_FAULT");
  if (wanted == NULL || wanted[0] == '\0') return;
  for (plain_selected = 0; plain_selected < PLAIN_FAULT_COUNT; ++plain_selected)
    if (strcmp(names[plain_selected], wanted) == 0) return;
  fprintf(stderr, "SINKTRAP_FAULT=%s: no fault of that name; ./sinktrap list mutants shows them\n", wanted);
  exit(2); /* rather than an honest library that is taken for a faulty one */
}
#endif
