/* The faults of a library that can have any, two at most: set when it is built, by the program around it, or,
 * with -DPLAIN_FROM_ENVIRONMENT, by the variable SINKTRAP_FAULT (NAME, or NAME+NAME) when the library is
 * loaded. */
#include <stdio.h>

#include "plain.h"

#ifdef PLAIN_SELECTABLE
int plain_selected = PLAIN_CHOSEN, plain_also = PLAIN_FAULT_none;
#else
#define plain_selected ((int)PLAIN_CHOSEN)
#define plain_also ((int)PLAIN_FAULT_none)
#endif

static const char* const names[] = {
#define X(NAME, kind, stage, what, report) #NAME,
#include "plain_faults.def"
#undef X
};

const char* plain_title(void) {
  static char title[128]; /* two names of the list and some */
  if (plain_selected == PLAIN_FAULT_none) return "plain_c";
  if (plain_also == PLAIN_FAULT_none)
    snprintf(title, sizeof title, "plain_c:%s", names[plain_selected]);
  else
    snprintf(title, sizeof title, "plain_c:%s+%s", names[plain_selected], names[plain_also]);
  return title;
}

#if defined(PLAIN_SELECTABLE) && defined(PLAIN_FROM_ENVIRONMENT)
#include <stdlib.h>
#include <string.h>

static int fault_named(const char* name, size_t length) {
  int i;
  for (i = 0; i < PLAIN_FAULT_COUNT; ++i)
    if (strlen(names[i]) == length && strncmp(names[i], name, length) == 0) return i;
  fprintf(stderr, "SINKTRAP_FAULT=%s: no fault of that name; ./sinktrap list mutants shows them\n", name);
  exit(2); /* rather than an honest library that is taken for a faulty one */
}

__attribute__((constructor)) static void select_from_environment(void) {
  const char* wanted = getenv("SINKTRAP_FAULT");
  const char* plus;
  if (wanted == NULL || wanted[0] == '\0') return;
  plus = strchr(wanted, '+');
  plain_selected = fault_named(wanted, plus == NULL ? strlen(wanted) : (size_t)(plus - wanted));
  if (plus != NULL) plain_also = fault_named(plus + 1, strlen(plus + 1));
}
#endif
