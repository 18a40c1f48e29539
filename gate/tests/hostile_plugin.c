/* An honest implementation in a library that misbehaves outside of the functions that are judged, as $HOSTILE
 * says:
 *   load      ends the process with status 0 when it is loaded
 *   validate  ends the process with status 0 in validate
 *   endless   is ended by the alarm that is set while validate works; without one it says so with status 9
 *   refuse    refuses every layer
 *   end       is killed by a signal when the process ends */
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "contract/sinktrap.h"

static int hostile(const char* what) {
  const char* wanted = getenv("HOSTILE");
  return wanted != NULL && strcmp(wanted, what) == 0;
}

__attribute__((constructor)) static void load(void) {
  if (hostile("load")) _exit(0);
}

__attribute__((destructor)) static void unload(void) {
  if (hostile("end")) raise(SIGKILL);
}

static const sinktrap_implementation_table* honest;

static int32_t validate(const sinktrap_layout* layouts, int64_t count, int32_t profile,
                        sinktrap_verdict* verdicts) {
  if (hostile("validate")) _exit(0);
  if (hostile("endless")) {
    if (alarm(0) == 0) _exit(9);
    raise(SIGALRM);
  }
  return honest->validate(layouts, count, profile, verdicts);
}

static int32_t refuse(const sinktrap_layer* layer, const char* options, sinktrap_instance** instance,
                      sinktrap_verdict* verdict) {
  (void)layer, (void)options;
  *instance = NULL;
  verdict->code = SINKTRAP_UNSUPPORTED;
  return SINKTRAP_UNSUPPORTED;
}

const sinktrap_implementation_table* sinktrap_implementation(uint32_t host_abi_version) {
  static sinktrap_implementation_table table;
  void* library = dlopen(SINKTRAP_HONEST, RTLD_NOW | RTLD_LOCAL);
  sinktrap_implementation_function function = NULL;
  if (library == NULL) return NULL;
  *(void**)&function = dlsym(library, "sinktrap_implementation");
  honest = function(host_abi_version);
  table = *honest;
  table.validate = validate;
  if (hostile("refuse")) table.create = refuse;
  return &table;
}
